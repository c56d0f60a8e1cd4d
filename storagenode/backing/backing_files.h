// BackingFiles: the backing sets that have a copy on this node (docs/backing.md), on its data directory.
// Calls of the backing program, by set. One loop.
#ifndef SLICE_STORAGENODE_BACKING_BACKING_FILES_H
#define SLICE_STORAGENODE_BACKING_BACKING_FILES_H

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/metrics.h"
#include "storagenode/backing/set_copy.h"

namespace slice::storagenode {

class BackingFiles {
 public:
  static constexpr std::size_t kMostSets = 1024;
  // Of all sets together, where there are not very many sets; but each has a few.
  static constexpr std::size_t kMostOpen = 256, kLeastOpen = 8;
  // Longer than from one RENEW of an owner to the next.
  static constexpr Duration kLeavePatience = std::chrono::milliseconds(700);

  struct Seams {
    Loop& loop;
    storage::Disk& disk;
    Metrics& metrics;
    const CrashPoints& crash = no_crash_points();
    std::function<std::uint64_t()> reserve;  // bytes of the disk that are not for sets
  };
  // What `seams` has outlives it.
  explicit BackingFiles(Seams seams);
  // stop() has ended, or nothing of it is resumed any more.
  ~BackingFiles() = default;

  // Which sets there are; before the first call. A set that is damaged is of no use, and costs no other one.
  Task<Status> start();
  // Tells each owner once, in place of what it asks for, that it is to go on without this node. One that goes
  // on asking has no other. Ends when all have heard that have a session, or after kLeavePatience.
  Task<void> leave();
  // Ends when every call has. Those that wait for others before them end at once.
  Task<void> stop();

  Task<wire::BackingAttachResult> attach(wire::BackingAttachArgs args);
  wire::BackingStatusResult renew(const wire::BackingOwnerArgs& args);
  Task<wire::BackingStatusResult> let_go(wire::BackingOwnerArgs args);
  Task<wire::BackingChangeResult> change(const wire::BackingChangeArgs& args);
  // The result's bytes lie in `into`.
  Task<wire::BackingReadResult> read(const wire::BackingReadArgs& args, Buffer& into);
  Task<wire::BackingListResult> list(wire::BackingListArgs args);
  Task<wire::BackingDigestResult> digest(wire::BackingDigestArgs args);

 private:
  class Call;
  // A folder that may be one of a set.
  Task<Status> load(const std::string& name);
  SetCopy& add(SetState state);
  SetCopy* find(const wire::BackingOwner& owner);  // null: there is none
  // Whether this is an owner that is to hear it, now.
  bool leaves(const SetCopy& copy, const wire::BackingOwner& owner);
  bool all_told() const;
  wire::BackingStatus counted(wire::BackingStatus status);
  // Bytes that are free less the reserve, and all.
  std::pair<std::uint64_t, std::uint64_t> space() const;

  Seams seams_;
  SetSeams shared_;
  std::map<std::uint32_t, std::unique_ptr<SetCopy>> sets_;  // by server
  std::size_t calls_ = 0;                                   // under way
  bool leaving_ = false;
  std::set<std::uint32_t> told_;  // by server
  std::optional<OneShot<bool>> ended_;
  Gauge& sets_gauge_;
  std::vector<Counter*> refused_;  // by status
};

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_BACKING_BACKING_FILES_H
