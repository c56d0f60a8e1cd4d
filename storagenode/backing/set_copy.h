// SetCopy: this node's copy of one backing set: whose calls it takes, in which order, and what is known of
// its bytes (wire/backing.h). One loop.
#ifndef SLICE_STORAGENODE_BACKING_SET_COPY_H
#define SLICE_STORAGENODE_BACKING_SET_COPY_H

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "common/log.h"
#include "common/loop.h"
#include "common/metrics.h"
#include "common/task.h"
#include "service/crash_points.h"
#include "storagenode/backing/set_files.h"
#include "storagenode/backing/set_state.h"

namespace slice::storagenode {

// What all sets of a node have in common.
struct SetSeams {
  Loop& loop;
  storage::Disk& disk;
  const CrashPoints& crash;
  std::function<bool()> room;  // more is free than the reserve
  Counter& changes;            // calls that were carried out
  Counter& bytes;              // of their writes
  LogLimiter failure_log{5};
  std::uint64_t waiting_bytes = 0;  // of calls that wait for their turn
  bool stopped = false;
};

class SetCopy {
 public:
  // Of one set: calls that wait for others before them.
  static constexpr std::size_t kMostWaiting = 256;
  // Of a node.
  static constexpr std::uint64_t kMostWaitingBytes = 256 << 20;
  // For what has to come before; then it is a gap.
  static constexpr Duration kPatience = std::chrono::seconds(2);

  // `seams` outlives it. `state`: as the disk has it, or of a set that there was none of. An owner that is
  // known has a session from now on, since nobody can say that it has none.
  SetCopy(SetSeams& seams, SetState state);
  // No call may be under way.
  ~SetCopy() = default;

  // The set is of no use, and nothing of it is touched.
  void set_damaged() { damaged_ = true; }
  void set_most_open(std::size_t most) { files_.set_most_open(most); }

  Task<wire::BackingAttachResult> attach(wire::BackingAttachArgs args);
  wire::BackingStatus renew(const wire::BackingOwner& owner);
  // It has attached in this run, and its session is not over.
  bool used_by(const wire::BackingOwner& owner) const { return is_used() && is_owner(owner); }
  bool is_used() const { return attached_ && !leaves_ && held(0) > Duration(0); }
  Task<wire::BackingStatus> let_go(wire::BackingOwner owner);
  // `args` live until the task ends.
  Task<wire::BackingStatus> change(const wire::BackingChangeArgs& args);
  std::uint64_t applied() const { return applied_; }

  // Fewer bytes than `into` has at the end alone; `got`: how many.
  Task<wire::BackingStatus> read(const wire::BackingReadArgs& args, ByteSpan into, std::size_t& got);
  Task<wire::BackingListResult> list(const wire::BackingListArgs& args);
  Task<wire::BackingDigestResult> digest(const wire::BackingDigestArgs& args);

  // Those that wait do so no longer.
  void stop() { wake_all(); }

 private:
  using Owner = wire::BackingOwner;
  using BackingStatus = wire::BackingStatus;

  bool broken() const { return damaged_ || files_.failed(); }
  bool is_owner(const Owner& owner) const;
  // Whether this is the owner, as far as this run of the node knows.
  BackingStatus check_owner(const Owner& owner) const;
  // Whether its calls are taken: it has attached in this run.
  BackingStatus check_attached(const Owner& owner) const;
  // Of who reads and owns nothing: one that stands by, and looks ahead.
  static bool is_nobody(const Owner& owner) { return owner.epoch.value == 0; }
  BackingStatus check_reader(const Owner& owner) const;
  // Until the session of the present owner is over; 0: it is.
  Duration held(std::uint64_t former) const;
  // A later owner has waited for that for as long as a session is.
  bool is_waited_for() const;
  Task<BackingStatus> take_on(const wire::BackingAttachArgs& args, Duration& wait);
  // From the former owner, of whom nothing has an effect after it.
  Task<Status> hand_over(Owner owner, bool empty);
  Task<Status> make_durable();
  // Ends when this call has its turn (`number` is the next, or was before), and no later call.
  Task<BackingStatus> turn(const wire::BackingChangeArgs& args);
  Task<BackingStatus> after(const Owner& owner, std::uint64_t number);
  Task<BackingStatus> may_read(const Owner& owner, std::uint64_t number);
  bool is_gap(MonoTime came) const;
  Task<Status> carry_out(const wire::BackingChangeArgs& args, SetFiles::Syncs& syncs);
  // The files are about to change: what was noted of them durably is so no more.
  Task<Status> forget_contents();
  BackingStatus status_of(const Error& error);

  // Until wake() with at least that number, or that time.
  Task<void> wait(std::uint64_t number, MonoTime until);
  void wake(std::uint64_t number);
  void wake_all() { wake(~std::uint64_t{0}); }
  // Until no call changes or syncs anything.
  Task<void> idle();
  void begin() { ++active_; }
  void end();

  SetSeams& seams_;
  SetState state_;        // the owner that is in memory; durable once it is attached
  SetContents contents_;  // of the files now
  SetFiles files_;
  AsyncMutex attaching_;  // ATTACH and LET_GO, one at a time
  bool damaged_ = false;
  bool any_run_ = true;    // the files may have what an earlier run of the node has not synced
  bool attached_ = false;  // in this run of the node
  bool leaves_ = false;    // LET_GO has begun
  MonoTime session_end_{};
  std::optional<MonoTime> waited_for_since_;  // by a later owner, in the present one's session
  // The order of the owner's calls.
  std::uint64_t applied_ = 0;  // the last one that was carried out
  bool running_ = false;       // the one behind it is being
  std::size_t carried_ = 0;    // changes of that one that were, in an attempt that failed
  MonoTime progress_{};        // when one was begun or ended last
  std::size_t waiting_ = 0;
  std::map<std::pair<std::uint64_t, std::uint64_t>, OneShot<bool>> waiters_;  // by number and order
  std::uint64_t next_waiter_ = 0;
  std::size_t active_ = 0;
  std::optional<OneShot<bool>> idle_;
};

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_BACKING_SET_COPY_H
