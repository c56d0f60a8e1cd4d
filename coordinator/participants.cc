#include "coordinator/participants.h"

#include <algorithm>

namespace slice::coordinator {
namespace {

constexpr Duration kCallTimeout = std::chrono::seconds(5);  // of one try
constexpr Duration kMirroredCallTimeout = std::chrono::seconds(3);
constexpr Duration kMirroredCallRefused = std::chrono::seconds(1);  // its process is gone
constexpr Duration kFirstPause = std::chrono::milliseconds(20);
constexpr Duration kLongestPause = std::chrono::seconds(1);

std::string_view name_of(wire::ObjectProcedure procedure) {
  switch (procedure) {
    case wire::ObjectProcedure::kCommit:
      return "COMMIT";
    case wire::ObjectProcedure::kTruncate:
      return "TRUNCATE";
    case wire::ObjectProcedure::kRemove:
      return "REMOVE";
    default:
      return "?";
  }
}

}  // namespace

Participants::Participants(service::ServiceContext& context, Without without)
    : context_(context),
      without_(std::move(without)),
      calls_(context.metrics.counter("coordinator_participant_calls_total")),
      retries_(context.metrics.counter("coordinator_participant_retries_total")) {}

std::vector<std::uint32_t> Participants::of(const routing::FileHandle& handle, bool striped) const {
  const routing::RoutingTables& tables = *context_.tables.get();
  std::vector<std::uint32_t> servers;
  if (context_.config.volume.threshold > 0 && !routing::mirrored(handle)) {
    SiteId site = tables.small_file_site(handle.fileid);
    servers.push_back(tables.server_of(wire::Role::kSmallFile, site).server);
  }
  if (striped) {
    for (const wire::ServerEntry* server : tables.servers(wire::Role::kStorage)) {
      servers.push_back(server->server);
    }
  }
  return servers;
}

void Participants::note_retry(std::uint32_t server, wire::ObjectProcedure procedure, FileId file,
                              std::string_view why) {
  retries_.add();
  if (!retry_log_.allow()) return;
  const wire::ServerEntry* entry = context_.tables.get()->server(server);
  log_warning("{} is tried again server={} file={:#x} reason={}", name_of(procedure),
              entry != nullptr ? entry->name : "?", file.value, why);
}

template <class R, class Args>
Task<R> Participants::ask(std::uint32_t server, wire::ObjectProcedure procedure, Args args, bool until_done,
                          std::optional<routing::FileHandle> mirrored) {
  Duration pause = kFirstPause;
  // Nobody waits for a server again that has not answered another call, unless it has a session by now.
  bool silent = silent_.contains(server);
  while (true) {
    if (mirrored && co_await without_(*mirrored, server, silent)) co_return R{.status = nfs3::Status::kNoEnt};
    // The server may have moved since the last try.
    const wire::ServerEntry* entry = context_.tables.get()->server(server);
    if (entry == nullptr) {
      note_retry(server, procedure, args.object.fileid, "the tables do not name it");
    } else {
      calls_.add();
      auto result = co_await service::internal_call<R>(
          context_.channel, entry->endpoint, wire::kObjectProgram, procedure, args,
          mirrored ? kMirroredCallTimeout : kCallTimeout, mirrored ? kMirroredCallRefused : Duration(0));
      silent = !result;
      if (!result) {
        silent_.insert(server);
        note_retry(server, procedure, args.object.fileid, result.error().message);
      } else {
        silent_.erase(server);
        if (result->status == nfs3::Status::kOk ||
            (!until_done && result->status != nfs3::Status::kJukebox)) {
          co_return *result;
        }
        note_retry(server, procedure, args.object.fileid, nfs3::status_name(result->status));
      }
    }
    co_await context_.loop.sleep(pause);
    pause = std::min(pause * 2, kLongestPause);
  }
}

namespace {

std::optional<routing::FileHandle> if_mirrored(const routing::FileHandle& handle) {
  if (!routing::mirrored(handle)) return std::nullopt;
  return handle;
}

}  // namespace

Task<wire::ObjectCommitResult> Participants::commit(std::uint32_t server, routing::FileHandle handle,
                                                    Verifier largest_seen) {
  return ask<wire::ObjectCommitResult>(server, wire::ObjectProcedure::kCommit,
                                       wire::ObjectCommitArgs{object(handle.fileid), largest_seen}, false,
                                       if_mirrored(handle));
}

Task<bool> Participants::truncate(std::uint32_t server, routing::FileHandle handle, std::uint64_t size,
                                  Epoch epoch) {
  co_await ask<wire::ObjectStatusResult>(server, wire::ObjectProcedure::kTruncate,
                                         wire::ObjectTruncateArgs{object(handle.fileid), size, epoch}, true,
                                         if_mirrored(handle));
  co_return true;
}

Task<bool> Participants::remove(std::uint32_t server, FileId file) {
  co_await ask<wire::ObjectStatusResult>(server, wire::ObjectProcedure::kRemove,
                                         wire::ObjectRemoveArgs{object(file)}, true, std::nullopt);
  co_return true;
}

}  // namespace slice::coordinator
