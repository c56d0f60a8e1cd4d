#include "smallfile/object_program.h"

#include <utility>

#include "common/log.h"
#include "smallfile/stopped_objects.h"

namespace slice::smallfile {

using wire::ObjectProcedure;

ObjectProgram::ObjectProgram(service::ServiceContext& context, Store& store, Sites& sites,
                             service::AuthorityClient& authority, service::SiteGate& gate,
                             const service::SiteMoves& moves)
    : InternalProgram(wire::kObjectProgram,
                      &context.metrics.counter("object_calls_total", "calls of the object program")),
      context_(context),
      store_(store),
      sites_(sites),
      authority_(authority),
      gate_(gate),
      moves_(moves),
      failures_(context.metrics.counter("object_failures_total",
                                        "calls of the object program with another status than NFS3_OK")),
      misdirected_(context.metrics.counter(
          "object_misdirected_total",
          "calls of the object program for files of other small-file servers' sites")) {
  on<wire::ObjectTruncateArgs>(ObjectProcedure::kTruncate,
                               [this](const auto& args) { return truncate(args); });
  on<wire::ObjectRemoveArgs>(ObjectProcedure::kRemove, [this](const auto& args) { return remove(args); });
  on<wire::ObjectCommitArgs>(ObjectProcedure::kCommit, [this](const auto& args) { return commit(args); });
  on<wire::ObjectStatArgs>(ObjectProcedure::kStat, [this](const auto& args) { return stat(args); });
  on<wire::ObjectListArgs>(ObjectProcedure::kList, [this](const auto& args) { return list(args); });
  on<wire::ObjectImageArgs>(ObjectProcedure::kImage, [this](const auto& args) { return image(args); });
  on<wire::PlaceFileArgs>(ObjectProcedure::kPlaceFile,
                          [this](const auto& args) { return sites_.place(args); });
}

nfs3::Status ObjectProgram::check(const wire::ObjectName& object) const {
  const bool ours = object.volume == context_.handles.volume() && object.kind == wire::ObjectKind::kFile;
  return ours ? nfs3::Status::kOk : nfs3::Status::kInval;
}

SiteId ObjectProgram::site_of(FileId file) const {
  return context_.tables.get()->small_file_site(file);
}

bool ObjectProgram::owns(FileId file) const {
  const routing::RoutingTables& tables = *context_.tables.get();
  return tables.owns(context_.self.index, wire::Role::kSmallFile, tables.small_file_site(file));
}

std::optional<wire::ObjectStatusResult> ObjectProgram::not_ours(const wire::ObjectName& object) {
  if (nfs3::Status wrong = check(object); wrong != nfs3::Status::kOk) return wire::ObjectStatusResult{wrong};
  if (owns(object.fileid)) return std::nullopt;
  const SiteId site = context_.tables.get()->small_file_site(object.fileid);
  if (auto owner = moves_.given_to(site)) return wire::ObjectStatusResult{.also = {*owner}};
  misdirected_.add();
  if (log_limit_.allow()) {
    log_warning("misdirected call of the object program file={:#x} site={}", object.fileid.value, site.value);
  }
  return wire::ObjectStatusResult{nfs3::Status::kJukebox};
}

Task<wire::ObjectStatusResult> ObjectProgram::changed(FileId file, bool everywhere) {
  if (everywhere) co_return wire::ObjectStatusResult{};
  const SiteId site = site_of(file);
  while (gate_.holds(site.value)) {
    if (!co_await gate_.released(site.value)) co_return wire::ObjectStatusResult{nfs3::Status::kJukebox};
  }
  if (owns(file)) co_return wire::ObjectStatusResult{};
  auto owner = moves_.given_to(site);
  co_return wire::ObjectStatusResult{.also = owner ? wire::Also{*owner} : wire::Also{}};
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
  if (auto answer = not_ours(args.object)) co_return std::move(*answer);
  std::optional<service::SiteGate::Pass> pass(std::in_place, gate_, site_of(args.object.fileid).value);
  co_await context_.crash.reach("small.cutting");
  auto everywhere = co_await sites_.truncate(args.object.fileid, args.size, args.epoch);
  co_await context_.crash.reach("small.cut");
  authority_.forget(args.object.fileid);
  if (everywhere) authority_.note_cut(args.object.fileid, args.size, args.epoch);
  pass.reset();
  if (everywhere) co_return co_await changed(args.object.fileid, *everywhere);
  // Of a removed file there is nothing left to cut.
  if (everywhere.error().code == Errc::kStale) co_return wire::ObjectStatusResult{};
  co_return wire::ObjectStatusResult{failed("TRUNCATE", args.object, everywhere.error())};
}

Task<wire::ObjectStatusResult> ObjectProgram::remove(const wire::ObjectRemoveArgs& args) {
  if (auto answer = not_ours(args.object)) co_return std::move(*answer);
  std::optional<service::SiteGate::Pass> pass(std::in_place, gate_, site_of(args.object.fileid).value);
  co_await context_.crash.reach("small.removing");
  auto everywhere = co_await sites_.remove(args.object.fileid);
  co_await context_.crash.reach("small.removed");
  authority_.forget(args.object.fileid);
  pass.reset();
  if (everywhere) co_return co_await changed(args.object.fileid, *everywhere);
  co_return wire::ObjectStatusResult{failed("REMOVE", args.object, everywhere.error())};
}

Task<wire::ObjectCommitResult> ObjectProgram::commit(const wire::ObjectCommitArgs& args) {
  context_.verifier.see(args.largest_seen);
  wire::ObjectCommitResult result;
  if (auto answer = not_ours(args.object)) {
    result.status = answer->status;
    result.also = std::move(answer->also);
  } else {
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

// What is here, whoever's site it is: a checker asks all.
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

// What is here, as STAT.
Task<wire::ObjectImageResult> ObjectProgram::image(const wire::ObjectImageArgs& args) {
  wire::ObjectImageResult result{.status = check(args.object), .mtime = {}, .runs = {}};
  if (result.status != nfs3::Status::kOk) co_return result;
  auto there = store_.stat(args.object.fileid);
  auto image = there ? co_await store_.image(args.object.fileid)
                     : Result<Store::Image>(fail(std::move(there).error()));
  if (!image) {
    result.status = failed("IMAGE", args.object, image.error());
    co_return result;
  }
  result.end = image->seen.end;
  result.epoch = image->seen.epoch;
  result.mtime = image->seen.mtime;
  std::size_t bytes = 0;
  for (const Store::Run& run : image->runs) {
    if (run.offset < args.offset) continue;
    if (bytes + run.data.size() > wire::kMaxImageBytes) {
      result.next = run.offset;
      break;
    }
    bytes += run.data.size();
    result.runs.push_back({run.offset, std::string(as_text(run.data.view()))});
  }
  co_return result;
}

}  // namespace slice::smallfile
