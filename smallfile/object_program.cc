#include "smallfile/object_program.h"

#include "common/log.h"
#include "smallfile/stopped_objects.h"

namespace slice::smallfile {

using wire::ObjectProcedure;

ObjectProgram::ObjectProgram(service::ServiceContext& context, Store& store,
                             service::AuthorityClient& authority)
    : InternalProgram(wire::kObjectProgram, &context.metrics.counter("object_calls_total")),
      context_(context),
      store_(store),
      authority_(authority),
      failures_(context.metrics.counter("object_failures_total")),
      misdirected_(context.metrics.counter("object_misdirected_total")) {
  on<wire::ObjectTruncateArgs>(ObjectProcedure::kTruncate,
                               [this](const auto& args) { return truncate(args); });
  on<wire::ObjectRemoveArgs>(ObjectProcedure::kRemove, [this](const auto& args) { return remove(args); });
  on<wire::ObjectCommitArgs>(ObjectProcedure::kCommit, [this](const auto& args) { return commit(args); });
  on<wire::ObjectStatArgs>(ObjectProcedure::kStat, [this](const auto& args) { return stat(args); });
  on<wire::ObjectListArgs>(ObjectProcedure::kList, [this](const auto& args) { return list(args); });
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

Task<wire::ObjectStatusResult> ObjectProgram::truncate(const wire::ObjectTruncateArgs& args) {
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
  co_return result;
}

Task<wire::ObjectStatusResult> ObjectProgram::remove(const wire::ObjectRemoveArgs& args) {
  wire::ObjectStatusResult result{check(args.object)};
  if (result.status == nfs3::Status::kOk) {
    co_await context_.crash.reach("small.removing");
    Status status = co_await store_.remove(args.object.fileid);
    co_await context_.crash.reach("small.removed");
    authority_.forget(args.object.fileid);
    if (!status) result.status = failed("REMOVE", args.object, status.error());
  }
  co_return result;
}

Task<wire::ObjectCommitResult> ObjectProgram::commit(const wire::ObjectCommitArgs& args) {
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
  co_return result;
}

wire::ObjectStatResult ObjectProgram::stat(const wire::ObjectStatArgs& args) {
  wire::ObjectStatResult result{.status = check(args.object)};
  if (result.status == nfs3::Status::kOk) {
    auto found = store_.stat(args.object.fileid);
    if (found) {
      result = std::move(*found);
    } else {
      result.status = failed("STAT", args.object, found.error());
    }
  }
  return result;
}

wire::ObjectListResult ObjectProgram::list(const wire::ObjectListArgs& args) {
  auto listed = list_objects(store_, context_.handles.volume(), args);
  if (listed) return std::move(*listed);
  return {.status = failed("LIST", args.after, listed.error()), .objects = {}};
}

}  // namespace slice::smallfile
