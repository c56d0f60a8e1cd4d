// READ (RFC 1813 section 3.3.6).
#include <algorithm>

#include "service/room.h"
#include "smallfile/ops/ops.h"

namespace slice::smallfile {

using service::KnownFile;
using service::NfsAnswer;
using service::NfsRequest;

namespace {

// The file's size where a read up to `wanted_end` must know it: the size itself, or a number above wanted_end
// that is not larger than it. May move `known` forward.
Task<Result<std::uint64_t>> size_of(Shared& shared, const NfsRequest& request, const Store::Seen& seen,
                                    std::uint64_t wanted_end, KnownFile& known) {
  std::uint64_t least = std::max(seen.end, known.attributes.size);
  if (least > wanted_end) co_return least;
  if (request.handle.hint.size) co_return std::max(seen.end, *request.handle.hint.size);
  auto fresh = co_await shared.authority.fetch(request.handle, service::AuthorityClient::Freshness::kNow);
  if (!fresh) co_return fail(std::move(fresh).error());
  known = *fresh;
  co_return std::max(seen.end, known.attributes.size);
}

}  // namespace

Task<NfsAnswer> read(Shared& shared, NfsRequest& request, const nfs3::ReadArgs& args,
                     rpc::XdrWriter& results) {
  if (nfs3::Status type = service::check_transfer_type(request.handle); type != nfs3::Status::kOk) {
    co_return type;
  }
  if (args.offset >= shared.store.threshold()) co_return nfs3::Status::kJukebox;  // not this server's
  auto known = co_await shared.authority.fetch_for_transfer(request.who, request.handle, false);
  if (!known) co_return std::move(known).error();

  FileId file = request.handle.fileid;
  std::uint64_t count = std::min<std::uint64_t>(
      {args.count, service::largest_transfer(request), shared.store.threshold() - args.offset});
  std::size_t start = results.size();
  for (;;) {
    auto seen = shared.store.look(file);
    if (!seen) co_return std::move(seen).error();
    auto size = co_await size_of(shared, request, *seen, args.offset + count, *known);
    if (!size) co_return std::move(size).error();
    std::uint64_t n = *size > args.offset ? std::min(count, *size - args.offset) : 0;

    results.u32(static_cast<std::uint32_t>(nfs3::Status::kOk));
    nfs3::encode(results, service::room_for(request.handle, *known,
                                            {.epoch = seen->epoch,
                                             .end = seen->end,
                                             .atime = nfs3::time_of(shared.context.loop.wall())}));
    results.u32(static_cast<std::uint32_t>(n));
    results.boolean(args.offset + n >= *size);
    auto after = co_await shared.store.read(file, args.offset, results.reserve_opaque(n));
    if (!after) co_return std::move(after).error();
    // Cut meanwhile: count and end of file may not be what the bytes are. (That it grew is no harm: the reply
    // tells of the moment before.)
    if (after->epoch == seen->epoch) break;
    results.rewind(start);
  }
  co_return NfsAnswer::written();
}

}  // namespace slice::smallfile
