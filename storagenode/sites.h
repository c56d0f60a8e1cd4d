// Sites: what a storage node does with the stripes of sites that move to it or from it (docs/moves.md). Of
// files without a layout alone: the others are where their layout says. While a site leaves, its writes are
// ordered here, stripe by stripe, and done by the new owner as well before they are answered, as for a
// mirrored file; but a new owner that lacks one ends the attempt, and nothing else. One loop.
#ifndef SLICE_STORAGENODE_SITES_H
#define SLICE_STORAGENODE_SITES_H

#include <functional>
#include <memory>
#include <vector>

#include "service/authority_client.h"
#include "service/context.h"
#include "service/placing.h"
#include "service/site_data.h"
#include "service/site_gate.h"
#include "storagenode/object_store.h"
#include "storagenode/stripe_locks.h"
#include "wire/object.h"

namespace slice::service {
class LateWrites;
}  // namespace slice::service

namespace slice::storagenode {

class Sites : public service::SiteData {
 public:
  // All outlive it; `late_writes` as long as sites move.
  Sites(service::ServiceContext& context, ObjectStore& store, service::AuthorityClient& authority,
        std::function<service::LateWrites&()> late_writes);

  service::SiteGate& gate() { return gate_; }
  // Whether the stripe at this offset may be read and written beside others: its site is not about to go.
  bool settled(const routing::FileHandle& handle, std::uint64_t offset) const;
  // ObjectStore::write(), and where the stripe's site leaves, at its new owner as well; then all bytes are of
  // one stripe.
  Task<Result<ObjectStore::Written>> write(routing::FileHandle handle, std::uint64_t offset, ByteView data,
                                           ObjectStore::WriteOptions options);
  // The object program's PLACE.
  Task<wire::PlaceResult> place(wire::PlaceArgs args);

  Task<Status> clear(std::vector<std::uint32_t> sites) override;
  void open(const wire::SiteMove& move, std::uint64_t attempt) override;
  Task<void> close(wire::MoveId move) override;
  Task<Status> sync() override { return store_.sync_all(); }
  void learn(const std::vector<wire::LateWrite>& writes) override;
  Task<Status> join(std::shared_ptr<service::LeavingSites> leaving) override;
  void leave(const service::LeavingSites& leaving) override;
  Task<Status> copy(std::shared_ptr<service::LeavingSites> leaving) override;
  Task<Result<std::uint64_t>> count(std::vector<std::uint32_t> sites) override;
  std::vector<wire::LateWrite> late_writes(const std::vector<std::uint32_t>& sites) override;

 private:
  using Leaving = service::Leaving;
  using Placed = service::Placed;
  // Bytes of one stripe of an object.
  struct Piece {
    std::uint64_t offset = 0, length = 0;
  };
  // A file that this node has an object of.
  struct Held {
    ObjectName name;
    routing::FileHandle handle;
  };
  class Walk;

  std::uint32_t site_of(const routing::FileHandle& handle, std::uint64_t offset) const;
  ObjectName object_of(const routing::FileHandle& handle) const;
  Task<Result<ObjectStore::Written>> write_both(Leaving leaving, routing::FileHandle handle,
                                                std::uint64_t offset, ByteView data,
                                                ObjectStore::WriteOptions options);
  Task<Result<ObjectStore::Written>> put(routing::FileHandle handle, const wire::PlaceArgs& args);
  // Of `args` what the attempt does not say: number, epoch, offset, mtime, data.
  Task<Placed> place_there(Leaving leaving, rpc::Urgency urgency, routing::FileHandle handle,
                           wire::PlaceArgs args);
  Task<Status> copy_object(Leaving leaving, Held held);
  Task<Status> copy_piece(Leaving leaving, routing::FileHandle handle, Piece piece);
  // The data of these sites that the object has, in pieces of one stripe and one transfer at most.
  Task<Result<std::vector<Piece>>> pieces(Held held, std::vector<std::uint32_t> sites);
  Task<Status> clear_object(Held held, std::vector<std::uint32_t> sites);

  service::ServiceContext& context_;
  ObjectStore& store_;
  service::AuthorityClient& authority_;
  std::function<service::LateWrites&()> late_writes_;
  service::SiteGate gate_;
  StripeLocks locks_, placing_;  // as the old owner; as the new one
  service::WriteNumbers numbers_;
  service::Departures leaving_;
  service::Arrivals arriving_;
  Counter &forwarded_, &copied_bytes_, &placed_bytes_;
};

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_SITES_H
