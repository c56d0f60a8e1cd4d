#include "smallfile/object_program.h"

#include "common/log.h"

namespace slice::smallfile {

using rpc::Outcome;
using wire::ObjectProcedure;

ObjectProgram::ObjectProgram(service::ServiceContext& context, Store& store,
                             service::AuthorityClient& authority)
    : context_(context),
      store_(store),
      authority_(authority),
      calls_(context.metrics.counter("object_calls_total")),
      failures_(context.metrics.counter("object_failures_total")),
      misdirected_(context.metrics.counter("object_misdirected_total")) {}

Task<Outcome> ObjectProgram::handle(const rpc::Call& call, rpc::XdrWriter& results) {
  if (!call.internal) co_return Outcome::kDenied;
  calls_.add();
  switch (static_cast<ObjectProcedure>(call.procedure)) {
    case ObjectProcedure::kNull:
      co_return Outcome::kReply;
    case ObjectProcedure::kTruncate:
      co_return co_await truncate(call.arguments, results);
    case ObjectProcedure::kRemove:
      co_return co_await remove(call.arguments, results);
    case ObjectProcedure::kCommit:
      co_return co_await commit(call.arguments, results);
    case ObjectProcedure::kStat:
      co_return stat(call.arguments, results);
    default:
      co_return Outcome::kNoProcedure;
  }
}

nfs3::Status ObjectProgram::check(const wire::ObjectName& object) {
  if (object.volume != context_.handles.volume() || object.kind != wire::ObjectKind::kFile) {
    return nfs3::Status::kInval;
  }
  const routing::RoutingTables& tables = *context_.tables.get();
  SiteId site = tables.small_file_site(object.fileid);
  if (tables.owns(context_.self.index, wire::Role::kSmallFile, site)) return nfs3::Status::kOk;
  misdirected_.add();
  if (log_limit_.allow()) {
    log_warning("misdirected call of the object program file={:#x} site={}", object.fileid.value, site.value);
  }
  return nfs3::Status::kJukebox;
}

nfs3::Status ObjectProgram::failed(std::string_view operation, const wire::ObjectName& object,
                                   const Error& error) {
  failures_.add();
  if (error.code != Errc::kNotFound && log_limit_.allow()) {
    log_warning("{} failed file={:#x} reason={}", operation, object.fileid.value, error.message);
  }
  return nfs3::status_of(error);
}

Task<Outcome> ObjectProgram::truncate(ByteView arguments, rpc::XdrWriter& results) {
  wire::ObjectTruncateArgs args;
  if (!decode(arguments, args)) co_return Outcome::kGarbage;
  wire::ObjectStatusResult result{check(args.object)};
  if (result.status == nfs3::Status::kOk) {
    co_await context_.crash.reach("small.cutting");
    Status status = co_await store_.truncate(args.object.fileid, args.size, args.epoch);
    co_await context_.crash.reach("small.cut");
    authority_.forget(args.object.fileid);
    // Of a removed file there is nothing left to cut.
    bool gone = !status && status.error().code == Errc::kStale;
    if (!status && !gone) result.status = failed("TRUNCATE", args.object, status.error());
  }
  encode(results, result);
  co_return Outcome::kReply;
}

Task<Outcome> ObjectProgram::remove(ByteView arguments, rpc::XdrWriter& results) {
  wire::ObjectRemoveArgs args;
  if (!decode(arguments, args)) co_return Outcome::kGarbage;
  wire::ObjectStatusResult result{check(args.object)};
  if (result.status == nfs3::Status::kOk) {
    co_await context_.crash.reach("small.removing");
    Status status = co_await store_.remove(args.object.fileid);
    co_await context_.crash.reach("small.removed");
    authority_.forget(args.object.fileid);
    if (!status) result.status = failed("REMOVE", args.object, status.error());
  }
  encode(results, result);
  co_return Outcome::kReply;
}

Task<Outcome> ObjectProgram::commit(ByteView arguments, rpc::XdrWriter& results) {
  wire::ObjectCommitArgs args;
  if (!decode(arguments, args)) co_return Outcome::kGarbage;
  context_.verifier.see(args.largest_seen);
  wire::ObjectCommitResult result{.status = check(args.object)};
  if (result.status == nfs3::Status::kOk) {
    co_await context_.crash.reach("small.committing");
    auto committed = co_await store_.commit(args.object.fileid);
    co_await context_.crash.reach("small.committed");
    if (committed) {
      result.end = committed->seen.end;
      result.mtime = committed->seen.mtime;
      result.epoch = committed->seen.epoch;
    } else {
      result.status = failed("COMMIT", args.object, committed.error());
    }
  }
  result.verifier = context_.verifier.largest();
  encode(results, result);
  co_return Outcome::kReply;
}

Outcome ObjectProgram::stat(ByteView arguments, rpc::XdrWriter& results) {
  wire::ObjectStatArgs args;
  if (!decode(arguments, args)) return Outcome::kGarbage;
  wire::ObjectStatResult result{.status = check(args.object)};
  if (result.status == nfs3::Status::kOk) {
    auto found = store_.stat(args.object.fileid);
    if (found) {
      result = std::move(*found);
    } else {
      result.status = failed("STAT", args.object, found.error());
    }
  }
  encode(results, result);
  return Outcome::kReply;
}

}  // namespace slice::smallfile
