#include "dirserver/ops/resize.h"

#include "dirserver/ops/ops.h"

namespace slice::dirserver::ops {

nfs3::Status check_resize(const Identity& who, const AttributeCell& cell, std::uint64_t size) {
  if (cell.directory()) return nfs3::Status::kIsDir;
  if (!cell.regular()) return nfs3::Status::kInval;
  if (size > kMaxFileSize) return nfs3::Status::kFbig;
  // The owner always may: the file may have been opened before a chmod.
  if (who.uid != cell.uid && !may(who, cell, service::kMayWrite)) return nfs3::Status::kAcces;
  return nfs3::Status::kOk;
}

void resize(AttributeCell& cell, const Identity& who, std::uint64_t size, nfs3::Time now) {
  cell.size = size;
  ++cell.epoch.value;
  cell.ctime = later(now, cell.ctime);
  cell.mtime = cell.ctime;
  if (!who.superuser()) {
    cell.mode &= ~kSetUid;
    if ((cell.mode & kGroupExecute) != 0) cell.mode &= ~kSetGid;
  }
}

Task<tl::expected<TruncationRecord, NfsAnswer>> cut(Change& change, AttributeCell& cell,
                                                    std::optional<CallKey> call, nfs3::WccAttributes before) {
  Volume& volume = change.volume;
  TruncationRecord record = volume.truncations.begin(change.transaction, cell, call, before);
  if (Status committed = co_await change.commit_first_step(); !committed) {
    change.request.wcc = {};
    co_return tl::unexpected(co_await change.fail(refuse(committed.error()).value()));
  }
  if (!co_await volume.truncations.carry_out(record)) co_return tl::unexpected(NfsAnswer::drop());
  co_return record;
}

Task<nfs3::Status> set_size(Volume& volume, const NfsRequest& request, const Target& file,
                            std::uint64_t size) {
  routing::HandleBytes handle = volume.mint(file);
  nfs3::SetattrArgs set{.object = handle, .attributes = {.size = size}, .guard = {}};
  rpc::XdrWriter arguments;
  nfs3::encode_arguments(arguments, set);
  // Another call than the one it is part of: its reply is not remembered for that one.
  rpc::Call call = request.call;
  call.procedure = static_cast<std::uint32_t>(nfs3::Procedure::kSetattr);
  call.arguments = arguments.view();
  rpc::XdrWriter results;
  if (!volume.peers.owns(file.cell.site)) co_return co_await volume.peers.setattr(call, file.cell.site);
  NfsRequest own{.call = call,
                 .procedure = nfs3::Procedure::kSetattr,
                 .handle = handle_of(file),
                 .handle_bytes = handle,
                 .who = request.who,
                 .attributes = {},
                 .wcc = {}};
  NfsAnswer answer = co_await setattr(volume, own, set, results);
  rpc::XdrReader in(results.view());
  co_return results.size() < 4 ? nfs3::Status::kJukebox : static_cast<nfs3::Status>(in.u32());
}

}  // namespace slice::dirserver::ops
