// Intentions: the coordinator's durable memory of operations that have begun and are not known to have ended
// at every participant. One loop.
#ifndef SLICE_COORDINATOR_INTENTIONS_H
#define SLICE_COORDINATOR_INTENTIONS_H

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "common/metrics.h"
#include "coordinator/intention_format.h"
#include "service/context.h"
#include "storage/log.h"

namespace slice::coordinator {

// By the sequence that its record has.
using OpenIntentions = std::map<storage::LogSequence, Intention>;
// `open` with the next record of a log that is read from its beginning. kCorrupt.
Status replay_record(OpenIntentions& open, storage::LogSequence sequence, ByteView record);

class Intentions : public std::enable_shared_from_this<Intentions> {
 public:
  struct Options {
    Duration clear_delay = std::chrono::seconds(1);  // an ended intention is cleared within this
    // An intention that stays open while the log grows beyond this is written again at its end, so that what
    // is before it can be deleted.
    std::uint64_t carry_forward_bytes = 64 << 20;
    std::uint64_t segment_bytes = 16 << 20;
  };

  // Scans the log. `owed` gets what was begun and not cleared, oldest first.
  using Owed = std::vector<std::pair<storage::LogSequence, Intention>>;
  static Task<Result<std::shared_ptr<Intentions>>> open(service::ServiceContext& context, Options options,
                                                        Owed& owed);

  // Appends; durable() makes it so. kNoSpace, kIo.
  Result<storage::LogSequence> begin(const Intention& intention);
  Task<Status> durable(storage::LogSequence sequence);
  // Fulfilled at every participant: cleared lazily, together with others. After a crash before that it is
  // fulfilled once more, which changes nothing.
  void end(storage::LogSequence sequence);
  // Nobody goes on with it for now: it stays open, until take_up() or drop().
  void leave(storage::LogSequence sequence);
  // Of those that were left the wanted ones, oldest first: whoever gets them goes on with them.
  using Which = std::function<bool(const Intention&)>;
  Owed take_up(const Which& wanted);
  // They are no concern of this coordinator any more; durable when it ends well.
  Task<Status> drop(const Which& which);
  // All that has begun and ended so far is durable when it ends well.
  Task<Status> sync();
  // Clears what has ended, now: for a clean stop.
  Task<void> flush();

  // By present sequence: each has been greater than those of before when it was appended.
  const OpenIntentions& open() const { return open_; }
  std::size_t open_count() const { return open_.size(); }
  // False when the log takes nothing any more (its disk failed).
  bool healthy() const { return healthy_; }

 private:
  Intentions(service::ServiceContext& context, Options options);

  Result<storage::LogSequence> append(ByteView record);
  Status append_cleared();
  storage::LogSequence present(storage::LogSequence sequence) const;
  Status carry_forward();
  Task<Status> tidy();
  void tidy_later();
  void note_failure(const Error& error);

  service::ServiceContext& context_;
  Options options_;
  std::unique_ptr<storage::Log> log_;
  OpenIntentions open_;
  // What was carried forward: its first sequence, by which its operation knows it, to the present one.
  std::map<storage::LogSequence, storage::LogSequence> carried_;
  std::set<storage::LogSequence> left_;      // nobody goes on with them; as their operations knew them
  std::vector<storage::LogSequence> ended_;  // to be cleared
  bool tidy_armed_ = false;
  bool healthy_ = true;
  Counter& appended_;
  Counter& open_gauge_;
  Counter& carried_total_;
  Counter& failures_;
};

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_INTENTIONS_H
