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

// RFC 1813 has no way to ask for holes. A READ of no bytes does, of the ensemble's own clients
// (block/file_calls.h), and of files with a layout: `count` says how long what is at its offset goes on, at
// most to the end of the stripe unit, and `eof` that it is a hole.
bool asks_for_run(const service::NfsRequest& request, const nfs3::ReadArgs& args) {
  return request.call.own && args.count == 0 && routing::has_layout(request.handle);
}

Task<slice::Status> tell_run(Node& node, service::NfsRequest& request, const nfs3::ReadArgs& args,
                             rpc::XdrWriter& results) {
  const routing::FileHandle& handle = request.handle;
  const ObjectName name = node.object_of(handle);
  auto epoch = co_await node.store.epoch(name);
  if (!epoch) co_return fail(std::move(epoch.error()));
  if (const auto opened = routing::epoch_of_opener(handle); opened && epoch->value_or(Epoch()) > *opened)
    co_return fail(another_has_opened(handle));
  const std::uint64_t unit = std::uint64_t{1} << handle.stripe_shift;
  auto run = co_await node.store.run(name, args.offset, unit - args.offset % unit);
  if (!run) co_return fail(std::move(run.error()));
  results.u32(static_cast<std::uint32_t>(nfs3::Status::kOk));
  nfs3::encode(results, nfs3::PostOpAttributes{});
  results.u32(static_cast<std::uint32_t>(run->length));
  results.boolean(run->hole);
  results.opaque({});
  co_return slice::Status{};
}

// The bytes as the object here has them, as the results of a success.
Task<slice::Status> read_here(Node& node, service::NfsRequest& request, const nfs3::ReadArgs& args,
                              KnownFile& known, rpc::XdrWriter& results) {
  const routing::FileHandle& handle = request.handle;
  service::OwnPart own{.atime = node.now()};
  request.attributes = service::room_for(handle, known, own);

  Extent extent =
      clamp_transfer(node, handle, args.offset, std::min(args.count, service::largest_transfer(request)));
  results.u32(static_cast<std::uint32_t>(nfs3::Status::kOk));
  nfs3::encode(results, request.attributes);
  std::size_t room_at = results.size() - nfs3::kAttributesSize;
  std::size_t count_at = results.size();
  results.u32(0);
  results.boolean(false);
  ByteSpan into = results.reserve_opaque(
      extent.count, extent.count >= storage::kDirectLeast ? storage::kDirectAlignment : 1);
  auto got = co_await node.store.read(node.object_of(handle), extent.offset, into);
  if (!got) co_return fail(std::move(got.error()));
  if (const auto opened = routing::epoch_of_opener(handle); opened && got->epoch > *opened)
    co_return fail(another_has_opened(handle));

  auto size = co_await size_for(node, handle, extent.offset + extent.count, got->end, known);
  if (!size) co_return fail(std::move(size.error()));
  std::size_t n = extent.offset >= *size ? 0 : std::min<std::uint64_t>(extent.count, *size - extent.offset);
  if (n > got->bytes) std::memset(into.data() + got->bytes, 0, n - got->bytes);
  if (n < extent.count) results.shrink_opaque(extent.count, n);
  results.patch_u32(count_at, static_cast<std::uint32_t>(n));
  results.patch_u32(count_at + 4, extent.offset + n >= *size ? 1 : 0);
  own.epoch = got->epoch;
  own.end = got->end;
  if (auto room = service::room_for(handle, known, own)) put_room(results, room_at, *room);
  co_return slice::Status{};
}

// By a whole copy: the one here, if it is and stays one until it has been read.
Task<NfsAnswer> read_by_layout(Node& node, service::NfsRequest& request, const nfs3::ReadArgs& args,
                               KnownFile& known, rpc::XdrWriter& results) {
  constexpr int kTries = 5;
  std::size_t start = results.size();
  bool not_here = false;
  for (int i = 0; i < kTries; ++i) {
    auto passed = co_await node.mirrors.pass_on(request, args.offset, std::nullopt, not_here, results);
    if (passed.answer) co_return std::move(*passed.answer);
    slice::Status status =
        co_await (asks_for_run(request, args) ? tell_run(node, request, args, results)
                                              : read_here(node, request, args, known, results));
    if (status && node.mirrors.still(request.handle, args.offset, passed.version))
      co_return NfsAnswer::written();
    results.rewind(start);
    if (status) continue;
    // What this disk has lost others still have.
    not_here = routing::mirrored(request.handle) &&
               (status.error().code == Errc::kCorrupt || status.error().code == Errc::kIo);
    if (!not_here) co_return std::move(status.error());
    spawn(node.mirrors.lose(request.handle, args.offset >> request.handle.stripe_shift));
  }
  co_return nfs3::Status::kJukebox;
}

}  // namespace

Task<NfsAnswer> read(Node& node, service::NfsRequest& request, const nfs3::ReadArgs& args,
                     rpc::XdrWriter& results) {
  if (auto wrong = service::check_transfer_type(request.handle); wrong != nfs3::Status::kOk) co_return wrong;
  auto known = co_await node.authority.fetch_for_transfer(request.who, request.handle, false);
  if (!known) co_return known.error();
  if (routing::has_layout(request.handle)) {
    co_return co_await read_by_layout(node, request, args, *known, results);
  }
  slice::Status status = co_await read_here(node, request, args, *known, results);
  if (!status) co_return std::move(status.error());
  co_return NfsAnswer::written();
}

}  // namespace slice::storagenode
