// WRITE (RFC 1813 section 3.3.7).
#include "service/room.h"
#include "storagenode/ops/ops.h"
#include "storagenode/zeros.h"

namespace slice::storagenode {
namespace {

using service::AuthorityClient;
using service::KnownFile;
using service::NfsAnswer;

struct Accepted {
  ObjectStore::Written written;
  nfs3::Time mtime;
  Verifier verifier;
  bool sent_too_early = false;  // as Mirrors::Written
};

struct Bytes {
  ByteView data;
  bool hole = false;  // zeros, as ObjectStore::WriteOptions has it
};

// RFC 1813 has no way to make a hole. A WRITE with a count and no data does, of the ensemble's own clients
// (block/file_calls.h), and of files with a layout; nobody else's.
bool makes_hole(const service::NfsRequest& request, const nfs3::WriteArgs& args) {
  return request.call.own && args.count > 0 && args.data.empty() && routing::has_layout(request.handle);
}

// Before the first object of a file is made here, the authority notes that it has stripes: from then on a
// truncate or remove reaches this node.
Task<slice::Status> note_striped(Node& node, const service::NfsRequest& request, KnownFile& known) {
  auto striped = co_await node.authority.fetch(request.handle, AuthorityClient::Freshness::kCached, true);
  if (!striped) co_return fail(std::move(striped.error()));
  co_await node.context.crash.reach("write.striped");
  known = *striped;
  co_return slice::Status{};
}

Task<Result<Accepted>> write_object(Node& node, const service::NfsRequest& request, rpc::LayoutStamp /*sent*/,
                                    std::uint64_t offset, const Bytes& bytes, bool sync, KnownFile& known) {
  ObjectName name = node.object_of(request.handle);
  auto epoch = co_await node.store.epoch(name);
  if (!epoch) co_return fail(epoch.error());
  for (bool make = !epoch->has_value();; make = true) {
    if (make) SLICE_CO_RETURN_IF_ERROR(co_await note_striped(node, request, known));
    nfs3::Time mtime = node.now();
    auto written =
        co_await node.sites.write(request.handle, offset, bytes.data,
                                  {.epoch = known.epoch, .mtime = mtime, .sync = sync, .may_make = make});
    if (written) co_return Accepted{*written, mtime, node.context.verifier.largest()};
    // Removed since it was looked for.
    if (make || written.error().code != Errc::kNotFound) co_return fail(written.error());
  }
}

// The same to all copies, as the file's layout has them. kMisdirected: another server orders them by now.
Task<Result<Accepted>> write_copies(Node& node, const service::NfsRequest& request, rpc::LayoutStamp sent,
                                    std::uint64_t offset, const Bytes& bytes, bool sync, KnownFile& known) {
  auto epoch = co_await node.store.epoch(node.object_of(request.handle));
  if (!epoch) co_return fail(epoch.error());
  if (!epoch->has_value() && !bytes.hole)
    SLICE_CO_RETURN_IF_ERROR(co_await note_striped(node, request, known));
  nfs3::Time mtime = node.now();
  auto written =
      co_await node.mirrors.write(request.handle, sent, offset, bytes.data,
                                  {.epoch = known.epoch, .mtime = mtime, .sync = sync, .hole = bytes.hole});
  if (!written) co_return fail(std::move(written.error()));
  co_return Accepted{written->here, mtime, written->verifier, written->sent_too_early};
}

constexpr std::uint64_t kBlockOfUsage = 4096;

// Bytes of the blocks of a range that are stored here.
Task<std::uint64_t> present(Node& node, const routing::FileHandle& handle, const Extent& extent) {
  constexpr std::size_t most = 1024;  // stretches between holes, in one write's range
  const std::uint64_t begin = extent.offset / kBlockOfUsage * kBlockOfUsage;
  const std::uint64_t end =
      (extent.offset + extent.count + kBlockOfUsage - 1) / kBlockOfUsage * kBlockOfUsage;
  auto ranges = co_await node.store.data(node.object_of(handle), begin, most);
  if (!ranges) co_return 0;
  std::uint64_t sum = 0;
  for (const ObjectStore::Range& range : *ranges) {
    const std::uint64_t from = std::max(range.offset, begin), to = std::min(range.offset + range.length, end);
    sum += to > from ? to - from : 0;
  }
  co_return sum;
}

// Whoever said what it had heard sends it again, with the stamp of now. Others' requests have waited here.
NfsAnswer refuse(Node& node, const service::NfsRequest& request, rpc::XdrWriter& results) {
  if (request.call.layout.version == 0) return nfs3::Status::kJukebox;
  wire::encode_sent_too_early(results, node.mirrors.layouts().stamp(request.handle));
  return NfsAnswer::not_done();
}

Task<NfsAnswer> carry_out(Node& node, service::NfsRequest& request, const nfs3::WriteArgs& args,
                          rpc::XdrWriter& results) {
  const routing::FileHandle& handle = request.handle;
  const bool hole = makes_hole(request, args);
  const auto wrong = hole ? service::check_transfer_type(handle) : service::check_write(handle, args);
  if (wrong != nfs3::Status::kOk) co_return wrong;
  if (args.offset >= kMaxObjectSize && args.count > 0) co_return nfs3::Status::kFbig;
  rpc::LayoutStamp sent = node.mirrors.sent(request);
  auto known = co_await node.authority.fetch_for_transfer(request.who, handle, true);
  if (!known) co_return known.error();

  bool by_layout = routing::has_layout(handle);
  if (!by_layout && routing::epoch_of_opener(handle))
    co_return nfs3::Status::kInval;  // nobody would enforce it
  if (by_layout) {
    auto passed = co_await node.mirrors.pass_on(request, args.offset, sent, false, results);
    if (passed.answer) co_return std::move(*passed.answer);
  }
  Extent extent = clamp_transfer(node, handle, args.offset, args.count);
  nfs3::WriteOk ok{.wcc = {},
                   .count = extent.count,
                   .committed = args.stable,
                   .verifier = node.context.verifier.largest()};
  if (extent.count > 0) {
    auto quota = co_await node.authority.room(request.who, handle, extent.offset, hole ? 0 : extent.count,
                                              *known, [&] { return present(node, handle, extent); });
    if (!quota) co_return quota.error();
    const Bytes bytes{hole ? zeros(extent.count) : args.data.first(extent.count), hole};
    bool sync = args.stable != nfs3::Stable::kUnstable;
    // A client that gets no attributes asks the authority next; it must, if a mode bit went.
    bool tell_now = !handle.hint.can_patch || service::write_clears_set_id(request.who, known->attributes);
    std::uint64_t end = extent.offset + extent.count;
    auto write_all = by_layout ? write_copies : write_object;
    auto done = co_await write_all(node, request, sent, extent.offset, bytes, sync, *known);
    if (done && done->sent_too_early) co_return refuse(node, request, results);
    // Another copy orders them meanwhile.
    if (!done && by_layout && done.error().code == Errc::kMisdirected) {
      auto passed = co_await node.mirrors.pass_on(request, args.offset, sent, false, results);
      co_return passed.answer ? std::move(*passed.answer) : NfsAnswer::drop();
    }
    if (!done) co_return done.error();
    quota->stored(handle.fileid);
    ok.verifier = done->verifier;
    if (tell_now || sync) {
      auto told = tell_now ? co_await node.authority.report(handle, done->written.epoch, end, done->mtime)
                           : co_await node.told_durable(handle, done->written.epoch, end, done->mtime);
      if (!told) co_return told.error();
      co_await node.context.crash.reach("write.told");
    } else {
      node.authority.note(handle, done->written.epoch, end, done->mtime);
    }
    if (!tell_now) {
      ok.wcc.after = service::room_for(
          handle, *known, {.epoch = done->written.epoch, .end = end, .written = end, .mtime = done->mtime});
    }
  } else {
    ok.wcc.after = service::room_for(handle, *known, {});
  }
  nfs3::encode_result(results, ok);
  co_return NfsAnswer::written();
}

}  // namespace

// Told to wait, a client sends a new call, and goes on behind that. But of a file with a layout other copies
// of this one may be under way at other servers, as new as this one, and whoever orders writes by then would
// carry them out. So the same call is tried again (docs/mirrors.md). Who does not say what it had heard has
// none.
Task<NfsAnswer> write(Node& node, service::NfsRequest& request, const nfs3::WriteArgs& args,
                      rpc::XdrWriter& results) {
  NfsAnswer answer = co_await carry_out(node, request, args, results);
  const bool told_to_wait = answer.final_status() == nfs3::Status::kJukebox;
  if (told_to_wait && routing::has_layout(request.handle) && request.call.layout.version != 0)
    co_return NfsAnswer::drop();
  co_return answer;
}

}  // namespace slice::storagenode
