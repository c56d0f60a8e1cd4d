// READ (RFC 1813 section 3.3.6).
#include <algorithm>

#include "service/room.h"
#include "storagenode/ops/ops.h"

namespace slice::storagenode {
namespace {

using service::AuthorityClient;
using service::KnownFile;
using service::NfsAnswer;

// The file's size, as far as the reply to bytes [offset, wanted) depends on it: what this node holds and what
// others said is a lower bound; only where the read reaches that bound has somebody to be asked who knows
// whether there is a hole or the end.
Task<Result<std::uint64_t>> size_for(Node& node, const routing::FileHandle& handle, std::uint64_t wanted,
                                     std::uint64_t own_end, KnownFile& known) {
  std::uint64_t at_least = std::max(own_end, known.attributes.size);
  if (at_least > wanted) co_return at_least;
  if (handle.hint.size) co_return std::max(at_least, *handle.hint.size);
  auto now = co_await node.authority.fetch(handle, AuthorityClient::Freshness::kNow);
  if (!now) co_return fail(now.error());
  known = *now;
  co_return std::max(own_end, known.attributes.size);
}

void put_room(rpc::XdrWriter& results, std::size_t at, const nfs3::Attributes& room) {
  rpc::XdrWriter encoded;
  nfs3::encode(encoded, room);
  for (std::size_t i = 0; i < encoded.size(); i += 4) {
    results.patch_u32(at + i, load_be<std::uint32_t>(encoded.view().data() + i));
  }
}

}  // namespace

Task<NfsAnswer> read(Node& node, service::NfsRequest& request, const nfs3::ReadArgs& args,
                     rpc::XdrWriter& results) {
  const routing::FileHandle& handle = request.handle;
  if (auto wrong = service::check_transfer_type(handle); wrong != nfs3::Status::kOk) co_return wrong;
  auto known = co_await node.authority.fetch_for_transfer(request.who, handle, false);
  if (!known) co_return known.error();
  service::OwnPart own{.atime = node.now()};
  request.attributes = service::room_for(handle, *known, own);

  Extent extent = clamp_transfer(node, handle, args.offset, args.count);
  results.u32(static_cast<std::uint32_t>(nfs3::Status::kOk));
  nfs3::encode(results, request.attributes);
  std::size_t room_at = results.size() - nfs3::kAttributesSize;
  std::size_t count_at = results.size();
  results.u32(0);
  results.boolean(false);
  ByteSpan into = results.reserve_opaque(extent.count);
  auto got = co_await node.store.read(node.object_of(handle), extent.offset, into);
  if (!got) co_return got.error();

  auto size = co_await size_for(node, handle, extent.offset + extent.count, got->end, *known);
  if (!size) co_return size.error();
  std::size_t n = extent.offset >= *size ? 0 : std::min<std::uint64_t>(extent.count, *size - extent.offset);
  if (n > got->bytes) std::memset(into.data() + got->bytes, 0, n - got->bytes);
  if (n < extent.count) results.shrink_opaque(extent.count, n);
  results.patch_u32(count_at, static_cast<std::uint32_t>(n));
  results.patch_u32(count_at + 4, extent.offset + n >= *size ? 1 : 0);
  own.epoch = got->epoch;
  own.end = got->end;
  if (auto room = service::room_for(handle, *known, own)) put_room(results, room_at, *room);
  co_return NfsAnswer::written();
}

}  // namespace slice::storagenode
