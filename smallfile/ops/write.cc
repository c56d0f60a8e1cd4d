// WRITE (RFC 1813 section 3.3.7).
#include <algorithm>

#include "service/room.h"
#include "smallfile/ops/durable.h"

namespace slice::smallfile {

using service::NfsAnswer;
using service::NfsRequest;

namespace {

Task<std::uint64_t> present(Store& store, FileId file, std::uint64_t offset, std::size_t count) {
  auto bytes = store.stored_in(file, offset, count);
  co_return bytes ? *bytes : 0;
}

}  // namespace

Task<NfsAnswer> write(Shared& shared, NfsRequest& request, const nfs3::WriteArgs& args,
                      rpc::XdrWriter& results) {
  if (auto wrong = service::check_write(request.handle, args); wrong != nfs3::Status::kOk) co_return wrong;
  if (args.offset >= shared.store.threshold()) co_return nfs3::Status::kJukebox;  // not this server's
  auto known = co_await shared.authority.fetch_for_transfer(request.who, request.handle, true);
  if (!known) co_return std::move(known).error();

  FileId file = request.handle.fileid;
  std::size_t own = std::min<std::uint64_t>(args.count, shared.store.threshold() - args.offset);
  bool stable = args.stable != nfs3::Stable::kUnstable;
  bool clears = false;
  Store::Seen seen;
  if (own > 0) {
    auto quota = co_await shared.authority.room(request.who, request.handle, args.offset, own, *known, [&] {
      return present(shared.store, file, args.offset, own);
    });
    if (!quota) co_return std::move(quota).error();
    auto written = co_await shared.sites.apply(file, {.offset = args.offset,
                                                      .data = args.data.first(own),
                                                      .stable = stable,
                                                      .epoch = known->epoch,
                                                      .mtime_from = known->attributes.mtime});
    if (!written) co_return std::move(written).error();
    seen = written->seen;
    quota->stored(file);
    Status finished;
    // A client that gets no attributes asks the authority next; it must, if a mode bit went.
    clears = service::write_clears_set_id(request.who, known->attributes);
    if (clears || !request.handle.hint.can_patch || (stable && written->unreported)) {
      finished = co_await make_durable_and_tell(shared, request, *written);
    } else {
      shared.authority.note(request.handle, seen.epoch, seen.end, seen.mtime);
      finished = co_await make_durable(shared, written->sequence);
    }
    if (!finished) co_return std::move(finished).error();
  } else if (auto looked = shared.store.look(file)) {
    seen = *looked;
  } else {
    co_return std::move(looked).error();
  }
  service::OwnPart part = own_part(seen);
  if (own > 0) part.written = args.offset + own;
  auto room = clears ? std::nullopt : service::room_for(request.handle, *known, part);
  nfs3::encode_result(results,
                      nfs3::WriteOk{.wcc = {.after = room},
                                    .count = static_cast<std::uint32_t>(own),
                                    .committed = stable ? nfs3::Stable::kFileSync : nfs3::Stable::kUnstable,
                                    .verifier = shared.context.verifier.largest()});
  co_return NfsAnswer::written();
}

}  // namespace slice::smallfile
