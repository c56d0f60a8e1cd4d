// REMOVE: frees every part of a file that has no link left. Answered when its intention is durable; the parts
// follow in the background, some at a time.
#ifndef SLICE_COORDINATOR_OPS_REMOVE_H
#define SLICE_COORDINATOR_OPS_REMOVE_H

#include <deque>
#include <unordered_map>
#include <vector>

#include "coordinator/intentions.h"
#include "coordinator/layouts.h"
#include "coordinator/participants.h"
#include "service/authority_client.h"

namespace slice::coordinator {

class RemoveOperation {
 public:
  static constexpr std::size_t kAtOnce = 64;  // files whose parts are being removed, but for those below
  // Those that somebody has not answered for kPatience: they go on beside others, which a server that is away
  // does not hold up.
  static constexpr std::size_t kMostSlow = 1024;
  static constexpr Duration kPatience = std::chrono::seconds(5);
  static constexpr std::size_t kMaxOwed = 1 << 20;  // files; more are answered JUKEBOX

  RemoveOperation(service::ServiceContext& context, FileGate& gate, Intentions& intentions,
                  Participants& participants, Layouts& layouts, service::AuthorityClient& authority);

  // kOk: owed from now on, whatever happens. Asked again meanwhile it does nothing more; asked again later it
  // finds nothing to remove.
  Task<nfs3::Status> run(routing::FileHandle handle);
  // Leaves the removals of these files to who has their site next; none of them is under way.
  void leave(const Layouts::Which& which);
  // Goes on with what was not begun since its site was held.
  void go_on() { work(); }
  // Goes on with an intention that a crash, or another coordinator, has left.
  void resume(storage::LogSequence sequence, const Intention& intention);
  std::size_t owed() const { return owed_.size(); }

 private:
  struct Owed {
    bool durable = false;
    std::vector<OneShot<nfs3::Status>> waiters;  // until it is durable
  };
  struct Removal {
    routing::FileHandle handle;
    storage::LogSequence sequence;
  };
  Task<nfs3::Status> begin(routing::FileHandle handle);
  void work();
  void leave(const Removal& removal);
  Task<void> remove_everywhere(Removal removal);
  // False: the file's site is held, or not here any more.
  Task<bool> remove_parts(Removal removal);

  service::ServiceContext& context_;
  FileGate& gate_;
  Intentions& intentions_;
  Participants& participants_;
  Layouts& layouts_;
  service::AuthorityClient& authority_;
  std::unordered_map<FileId, Owed> owed_;
  std::deque<Removal> queue_;
  std::size_t active_ = 0, slow_ = 0;
  Counter& done_;
  Counter& owed_gauge_;
};

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_OPS_REMOVE_H
