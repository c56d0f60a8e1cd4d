#include "smallfile/operations.h"

#include <algorithm>

#include "service/room.h"

namespace slice::smallfile {

using Freshness = service::AuthorityClient::Freshness;
using service::KnownFile;
using service::NfsAnswer;
using service::NfsRequest;

namespace {

// For WRITE and COMMIT.
service::OwnPart own_part(const Store::Seen& seen) {
  return {.epoch = seen.epoch, .end = seen.end, .mtime = seen.mtime};
}

}  // namespace

void Operations::add_to(service::NfsProgram& program) {
  program.on<nfs3::ReadArgs>(nfs3::Procedure::kRead,
                             [this](NfsRequest& request, const nfs3::ReadArgs& args, rpc::XdrWriter& out) {
                               return read(request, args, out);
                             });
  program.on<nfs3::WriteArgs>(nfs3::Procedure::kWrite,
                              [this](NfsRequest& request, const nfs3::WriteArgs& args, rpc::XdrWriter& out) {
                                return write(request, args, out);
                              });
  program.on<nfs3::CommitArgs>(nfs3::Procedure::kCommit,
                               [this](NfsRequest& request, const nfs3::CommitArgs& args,
                                      rpc::XdrWriter& out) { return commit(request, args, out); });
}

// ---- READ ----

// The file's size where a read up to `wanted_end` must know it: the size itself, or a number above wanted_end
// that is not larger than it. May move `known` forward.
Task<Result<std::uint64_t>> Operations::size_of(const NfsRequest& request, const Store::Seen& seen,
                                                std::uint64_t wanted_end, KnownFile& known) {
  std::uint64_t least = std::max(seen.end, known.attributes.size);
  if (least > wanted_end) co_return least;
  if (request.handle.hint.size) co_return std::max(seen.end, *request.handle.hint.size);
  auto fresh = co_await authority_.fetch(request.handle, Freshness::kNow);
  if (!fresh) co_return fail(std::move(fresh).error());
  known = *fresh;
  co_return std::max(seen.end, known.attributes.size);
}

Task<NfsAnswer> Operations::read(NfsRequest& request, const nfs3::ReadArgs& args, rpc::XdrWriter& out) {
  if (nfs3::Status type = service::check_transfer_type(request.handle); type != nfs3::Status::kOk) {
    co_return type;
  }
  if (args.offset >= store_.threshold()) co_return nfs3::Status::kJukebox;  // not this server's
  auto known = co_await authority_.fetch_for_transfer(request.who, request.handle, false);
  if (!known) co_return std::move(known).error();

  FileId file = request.handle.fileid;
  std::uint64_t count = std::min<std::uint64_t>(
      {args.count, service::largest_transfer(request), store_.threshold() - args.offset});
  std::size_t start = out.size();
  for (;;) {
    auto seen = store_.look(file);
    if (!seen) co_return std::move(seen).error();
    auto size = co_await size_of(request, *seen, args.offset + count, *known);
    if (!size) co_return std::move(size).error();
    std::uint64_t n = *size > args.offset ? std::min(count, *size - args.offset) : 0;

    out.u32(static_cast<std::uint32_t>(nfs3::Status::kOk));
    nfs3::encode(out,
                 service::room_for(
                     request.handle, *known,
                     {.epoch = seen->epoch, .end = seen->end, .atime = nfs3::time_of(context_.loop.wall())}));
    out.u32(static_cast<std::uint32_t>(n));
    out.boolean(args.offset + n >= *size);
    auto after = co_await store_.read(file, args.offset, out.reserve_opaque(n));
    if (!after) co_return std::move(after).error();
    // Cut meanwhile: count and end of file may not be what the bytes are. (That it grew is no harm: the reply
    // tells of the moment before.)
    if (after->epoch == seen->epoch) break;
    out.rewind(start);
  }
  co_return NfsAnswer::written();
}

// ---- WRITE and COMMIT ----

Task<Status> Operations::make_durable(storage::LogSequence sequence) {
  co_await context_.crash.reach("small.written");
  Status status = co_await store_.durable(sequence);
  co_await context_.crash.reach("small.durable");
  co_return status;
}

// Both at once, since each waits for a disk. A crash in between may leave the size without the bytes, which
// then read as zeros, or the bytes without the size: nobody was told that the write is durable.
Task<Status> Operations::finish(const NfsRequest& request, const Store::Written& written) {
  const Store::Seen& seen = written.seen;
  std::vector<Task<Status>> parts;
  parts.reserve(2);
  parts.push_back(make_durable(written.sequence));
  parts.push_back(authority_.report(request.handle, seen.epoch, seen.end, seen.mtime));
  for (Status& status : co_await all(std::move(parts))) {
    if (!status) co_return std::move(status);
  }
  co_await context_.crash.reach("small.reported");
  store_.reported(request.handle.fileid, seen);
  co_return Status{};
}

Task<NfsAnswer> Operations::write(NfsRequest& request, const nfs3::WriteArgs& args, rpc::XdrWriter& out) {
  if (nfs3::Status type = service::check_transfer_type(request.handle); type != nfs3::Status::kOk) {
    co_return type;
  }
  if (args.data.size() < args.count) co_return nfs3::Status::kInval;
  if (args.offset >= store_.threshold()) co_return nfs3::Status::kJukebox;  // not this server's
  auto known = co_await authority_.fetch_for_transfer(request.who, request.handle, true);
  if (!known) co_return std::move(known).error();

  FileId file = request.handle.fileid;
  std::size_t own = std::min<std::uint64_t>(args.count, store_.threshold() - args.offset);
  bool stable = args.stable != nfs3::Stable::kUnstable;
  bool clears = false;
  Store::Seen seen;
  if (own > 0) {
    auto written = co_await store_.apply(file, {.offset = args.offset,
                                                .data = args.data.first(own),
                                                .stable = stable,
                                                .epoch = known->epoch,
                                                .mtime_from = known->attributes.mtime});
    if (!written) co_return std::move(written).error();
    seen = written->seen;
    Status finished;
    // A client that gets no attributes asks the authority next; it must, if a mode bit went.
    clears = service::write_clears_set_id(request.who, known->attributes);
    if (clears || !request.handle.hint.can_patch || (stable && written->unreported)) {
      finished = co_await finish(request, *written);
    } else {
      authority_.note(request.handle, seen.epoch, seen.end, seen.mtime);
      finished = co_await make_durable(written->sequence);
    }
    if (!finished) co_return std::move(finished).error();
  } else if (auto looked = store_.look(file)) {
    seen = *looked;
  } else {
    co_return std::move(looked).error();
  }
  service::OwnPart part = own_part(seen);
  if (own > 0) part.written = args.offset + own;
  auto room = clears ? std::nullopt : service::room_for(request.handle, *known, part);
  nfs3::encode_result(out,
                      nfs3::WriteOk{.wcc = {.after = room},
                                    .count = static_cast<std::uint32_t>(own),
                                    .committed = stable ? nfs3::Stable::kFileSync : nfs3::Stable::kUnstable,
                                    .verifier = context_.verifier.largest()});
  co_return NfsAnswer::written();
}

Task<NfsAnswer> Operations::commit(NfsRequest& request, const nfs3::CommitArgs&, rpc::XdrWriter& out) {
  if (nfs3::Status type = service::check_transfer_type(request.handle); type != nfs3::Status::kOk) {
    co_return type;
  }
  auto known = co_await authority_.fetch_for_transfer(request.who, request.handle, true);
  if (!known) co_return std::move(known).error();
  if (known->striped) co_return co_await pass_to_coordinator(request, out);
  auto committed = store_.begin_commit(request.handle.fileid);
  if (!committed) co_return std::move(committed).error();
  if (committed->unreported) {
    Status finished = co_await finish(request, *committed);
    if (!finished) co_return std::move(finished).error();
  } else {
    Status durable = co_await make_durable(committed->sequence);
    if (!durable) co_return std::move(durable).error();
    auto fresh = co_await authority_.fetch(request.handle, Freshness::kNow);
    if (!fresh) co_return std::move(fresh).error();
  }
  // A storage node says "striped" before it answers a file's first write: after asking the authority it is
  // certain whether other servers hold unstable bytes that this COMMIT has to cover.
  auto latest = co_await authority_.fetch(request.handle, Freshness::kCached);
  if (!latest) co_return std::move(latest).error();
  if (latest->striped) co_return co_await pass_to_coordinator(request, out);
  nfs3::encode_result(
      out,
      nfs3::CommitOk{.wcc = {.after = service::room_for(request.handle, *latest, own_part(committed->seen))},
                     .verifier = context_.verifier.largest()});
  co_return NfsAnswer::written();
}

Task<NfsAnswer> Operations::pass_to_coordinator(NfsRequest& request, rpc::XdrWriter& out) {
  const routing::RoutingTables& tables = *context_.tables.get();
  passed_on_.add();
  SiteId site = tables.coordinator_site(request.handle.fileid);
  rpc::Request call;
  call.to = tables.server_of(wire::Role::kCoordinator, site).endpoint;
  call.program = nfs3::kProgram;
  call.version = nfs3::kVersion;
  call.procedure = static_cast<std::uint32_t>(nfs3::Procedure::kCommit);
  call.arguments = Buffer(request.call.arguments);
  auto response = co_await context_.channel.call(std::move(call));
  if (!response) co_return std::move(response).error();
  ByteView results = response->results();
  if (results.size() < 4) co_return Error{Errc::kInvalid, "the coordinator's COMMIT reply is too short"};
  out.fixed(results);
  co_return NfsAnswer::written(static_cast<nfs3::Status>(load_be<std::uint32_t>(results.data())));
}

}  // namespace slice::smallfile
