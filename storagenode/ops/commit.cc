// COMMIT (RFC 1813 section 3.3.21) of this node's part of a file. Clients' COMMITs go to the coordinator,
// which asks every node by the object program; this serves whoever asks one node alone.
#include "service/room.h"
#include "storagenode/ops/ops.h"

namespace slice::storagenode {

using service::NfsAnswer;

Task<NfsAnswer> commit(Node& node, service::NfsRequest& request, const nfs3::CommitArgs& /*args*/,
                       rpc::XdrWriter& results) {
  const routing::FileHandle& handle = request.handle;
  if (auto wrong = service::check_transfer_type(handle); wrong != nfs3::Status::kOk) co_return wrong;
  auto known = co_await node.authority.fetch_for_transfer(request.who, handle, true);
  if (!known) co_return known.error();
  auto committed = co_await node.store.commit(node.object_of(handle));
  if (!committed) co_return committed.error();
  if (committed->exists) {
    auto told = co_await node.told_durable(handle, committed->epoch, committed->end, committed->mtime);
    if (!told) co_return told.error();
  }
  nfs3::CommitOk ok{
      .wcc = {.before = {},
              .after = service::room_for(handle, *known, {.epoch = committed->epoch, .end = committed->end})},
      .verifier = node.context.verifier.largest()};
  nfs3::encode_result(results, ok);
  co_return NfsAnswer::written();
}

}  // namespace slice::storagenode
