// MOVE: a stripe of a block-mapped file to another storage site, while it is read and written
// (docs/block-maps.md). One loop.
#ifndef SLICE_COORDINATOR_OPS_MOVE_H
#define SLICE_COORDINATOR_OPS_MOVE_H

#include <set>
#include <vector>

#include "coordinator/file_gate.h"
#include "coordinator/layouts.h"

namespace slice::coordinator {

class MoveOperation {
 public:
  MoveOperation(service::ServiceContext& context, FileGate& gate, Intentions& intentions, Sessions& sessions,
                Layouts& layouts);

  // kOk: it is there; what it leaves behind is given back in the background. kJukebox: it is where it was,
  // and may be moved later. kInval: a file without a layout, no such site, or one that is left
  // (RoutingTables::is_left); of listed ones those of as many servers as the file has copies. kStale: the
  // file was removed.
  Task<nfs3::Status> run(routing::FileHandle handle, std::uint64_t stripe, SiteId site);
  // As run(), again for a while where the answer is kJukebox; then waits as long as so many bytes take at
  // this rate. False: the stripe is where it was, or the file's site is held.
  Task<bool> run_at_pace(routing::FileHandle handle, std::uint64_t stripe, SiteId site, std::uint64_t bytes,
                         std::uint64_t bytes_per_second);
  // Nothing moves now.
  bool idle() const { return busy_.empty(); }
  // A move that a crash, or that the file's site went to another coordinator, has interrupted, before or
  // after the stripe came to its new site: gives back what the servers that do not have it have of it.
  Task<void> resume(storage::LogSequence sequence, const Intention& intention);

 private:
  struct Move {
    routing::FileHandle handle;
    std::uint64_t stripe = 0;
    SiteId to;
    std::vector<std::uint32_t> left;  // servers that have it before and not after
    std::vector<std::uint32_t> come;  // those that have it after and not before
  };
  // Whether a stripe of a file with so many copies may go there.
  bool is_place(SiteId site, std::uint32_t copies) const;
  Move plan(const routing::FileHandle& handle, std::uint64_t stripe, SiteId from, SiteId to) const;
  Task<nfs3::Status> run_alone(routing::FileHandle handle, std::uint64_t stripe, SiteId site);
  bool ready(const Move& move) const;
  Task<nfs3::Status> carry_out(const Move& move);
  Task<bool> copy(const Move& move, std::uint32_t to);
  Task<nfs3::Status> discard(routing::FileHandle handle, std::uint64_t stripe, std::uint32_t server);
  // Until all have done it, then the intention ends; or until the file's site is held.
  Task<void> give_back(Move move, std::vector<std::uint32_t> servers, storage::LogSequence sequence);

  service::ServiceContext& context_;
  FileGate& gate_;
  Intentions& intentions_;
  Sessions& sessions_;
  Layouts& layouts_;
  std::set<FileId> busy_;  // one stripe of a file at a time, until nothing is left of it
  LogLimiter log_{1};
  Counter& moved_;
  Counter& given_up_;
};

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_OPS_MOVE_H
