// Sites: what a small-file server does with the files of sites that move to it or from it (docs/moves.md). A
// file is of one site as a whole. While its site leaves, all that changes it is done here and then by the new
// owner, under the file's lock, before it is answered; a new owner that lacks something ends the attempt, and
// nothing else. One loop.
#ifndef SLICE_SMALLFILE_SITES_H
#define SLICE_SMALLFILE_SITES_H

#include <functional>
#include <vector>

#include "service/authority_client.h"
#include "service/context.h"
#include "service/file_locks.h"
#include "service/placing.h"
#include "service/site_data.h"
#include "smallfile/store.h"
#include "wire/object.h"

namespace slice::service {
class LateWrites;
}  // namespace slice::service

namespace slice::smallfile {

class Sites : public service::SiteData {
 public:
  // All outlive it.
  Sites(service::ServiceContext& context, Store& store, service::AuthorityClient& authority,
        service::LateWrites& late_writes, service::SiteGate& gate);

  // As of the store; and done by the new owner as well where the file's site leaves.
  Task<Result<Store::Written>> apply(FileId file, Store::Write write);
  // False: not by the new owner, whose the site may be by now.
  Task<Result<bool>> truncate(FileId file, std::uint64_t size, Epoch epoch);
  Task<Result<bool>> remove(FileId file);
  // The object program's PLACE_FILE.
  Task<wire::PlaceResult> place(wire::PlaceFileArgs args);

  Task<Status> clear(std::vector<std::uint32_t> sites) override;
  void open(const wire::SiteMove& move, std::uint64_t attempt) override { arriving_.open(move, attempt); }
  Task<void> close(wire::MoveId move) override { return arriving_.close(move); }
  Task<Status> sync() override { return store_.durable_all(); }
  void learn(const std::vector<wire::LateWrite>& writes) override;
  Task<Status> join(std::shared_ptr<service::LeavingSites> leaving) override {
    return leaving_.join(std::move(leaving), gate_);
  }
  void leave(const service::LeavingSites& leaving) override { leaving_.leave(leaving); }
  Task<Status> copy(std::shared_ptr<service::LeavingSites> leaving) override;
  Task<Result<std::uint64_t>> count(std::vector<std::uint32_t> sites) override;
  std::vector<wire::LateWrite> late_writes(const std::vector<std::uint32_t>& sites) override;

 private:
  using Leaving = service::Leaving;
  using Placed = service::Placed;
  using What = wire::PlaceFileArgs::What;

  std::uint32_t site_of(FileId file) const;
  bool owns(FileId file) const;
  // By which the file leaves; null: it stays.
  Leaving leaving(FileId file) const { return leaving_.none() ? nullptr : leaving_.of(site_of(file)); }
  // Whether it is done there. The file is locked.
  Task<bool> forward(Leaving leaving, wire::PlaceFileArgs args);
  Task<Placed> place_there(Leaving leaving, rpc::Urgency urgency, wire::PlaceFileArgs args);
  Task<Result<bool>> change(wire::PlaceFileArgs args);
  // Of the store here.
  Task<Status> put(const wire::PlaceFileArgs& args);
  Task<Status> copy_files(Leaving leaving, std::vector<FileId> files);
  // How many bytes it has.
  Task<Result<std::uint64_t>> copy_file(Leaving leaving, FileId file);

  service::ServiceContext& context_;
  Store& store_;
  service::AuthorityClient& authority_;
  service::LateWrites& late_writes_;
  service::SiteGate& gate_;
  service::FileLocks locks_;
  service::WriteNumbers numbers_;
  service::Departures leaving_;
  service::Arrivals arriving_;
  Counter &forwarded_, &copied_files_, &copied_bytes_, &placed_bytes_;
};

}  // namespace slice::smallfile

#endif  // SLICE_SMALLFILE_SITES_H
