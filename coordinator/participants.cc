#include "coordinator/participants.h"

#include <algorithm>

#include "coordinator/extents.h"

namespace slice::coordinator {
namespace {

constexpr Duration kSettleTimeout = std::chrono::seconds(5);  // of one try
constexpr Duration kMirroredCallTimeout = std::chrono::seconds(3);
constexpr Duration kMirroredCallRefused = std::chrono::seconds(1);  // its process is gone
constexpr Duration kFirstRetryPause = std::chrono::milliseconds(20);
constexpr Duration kLongestRetryPause = std::chrono::seconds(1);

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

bool add_holding(wire::ObjectCommitResult& all, const wire::ObjectCommitResult& part) {
  const bool holds = part.status == nfs3::Status::kOk && (part.end > 0 || part.mtime != nfs3::Time{});
  if (!holds) return false;
  // A truncation in between: what was written before it says nothing of the size now.
  if (part.epoch > all.epoch) all.end = 0;
  all.epoch = std::max(all.epoch, part.epoch);
  if (part.epoch == all.epoch) all.end = std::max(all.end, part.end);
  all.mtime = std::max(all.mtime, part.mtime);
  return true;
}

Participants::Participants(service::ServiceContext& context, FileGate& gate, Without without,
                           Committed committed)
    : context_(context),
      gate_(gate),
      without_(std::move(without)),
      committed_(std::move(committed)),
      calls_(context.metrics.counter("coordinator_participant_calls_total", "calls of data servers")),
      retries_(context.metrics.counter("coordinator_participant_retries_total",
                                       "calls of data servers made again")),
      others_(context.metrics.counter(
          "coordinator_moved_participants_total",
          "calls of servers that a data server named, since sites have moved or are moving to them")) {}

Participants::Chosen Participants::of(const routing::FileHandle& handle, bool striped) const {
  const routing::RoutingTables& tables = *context_.tables.get();
  Chosen chosen{.servers = {}, .known = tables.generation()};
  std::vector<std::uint32_t>& servers = chosen.servers;
  const bool small = !routing::mirrored(handle) && !routing::epoch_of_opener(handle);
  if (context_.config.volume.threshold > 0 && small) {
    SiteId site = tables.small_file_site(handle.fileid);
    servers.push_back(tables.server_of(wire::Role::kSmallFile, site).server);
  }
  if (striped) {
    for (std::uint32_t server : routing::storage_servers(tables, handle)) servers.push_back(server);
  }
  return chosen;
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
Task<Result<R>> Participants::ask_once(std::uint32_t server, wire::ObjectProcedure procedure, Args args,
                                       bool mirrored) {
  const wire::ServerEntry* entry = context_.tables.get()->server(server);
  if (entry == nullptr) co_return fail(Errc::kNotFound, "the tables do not name it");
  calls_.add();
  co_return co_await service::internal_call<R>(
      context_.channel, entry->endpoint, wire::kObjectProgram, procedure, args,
      mirrored ? kMirroredCallTimeout : kSettleTimeout, mirrored ? kMirroredCallRefused : Duration(0));
}

template <class R>
R Participants::removed(const routing::FileHandle& handle) const {
  R result{.also = of(handle, true).servers};
  std::erase_if(result.also, [&](std::uint32_t other) { return context_.tables.get()->gone(other); });
  if constexpr (requires { result.verifier; }) result.verifier = context_.verifier.largest();
  return result;
}

template <class R, class Args>
Task<R> Participants::ask(std::uint32_t server, wire::ObjectProcedure procedure, Args args, bool until_done,
                          routing::FileHandle handle) {
  const bool mirrored = routing::mirrored(handle);
  // Of a removed file nobody makes a copy whole again that was away: what it has would stay for good.
  const bool may_go_without = mirrored && procedure != wire::ObjectProcedure::kRemove;
  Duration pause = kFirstRetryPause;
  // Nobody waits for a server again that has not answered another call, unless it has a session by now.
  bool silent = silent_.contains(server);
  while (true) {
    if (const auto tables = context_.tables.get(); tables->gone(server)) {
      // What a lost one of a file with one copy had acknowledged, and not made durable, is to be written
      // again.
      if (!mirrored) context_.verifier.see(tables->server(server)->lost);
      if (!may_go_without || tables->removed(server)) co_return removed<R>(handle);
    }
    if (mirrored && procedure == wire::ObjectProcedure::kCommit && committed_(handle, server))
      co_return R{.status = nfs3::Status::kNoEnt};
    if (may_go_without && co_await without_(handle, server, silent))
      co_return R{.status = nfs3::Status::kNoEnt};
    // The server may have moved since the last try.
    auto told =
        co_await gate_.unless_held(args.object.fileid, ask_once<R>(server, procedure, args, mirrored));
    if (!told) co_return R{.status = nfs3::Status::kJukebox};
    Result<R> result = std::move(*told);
    silent = !result;
    if (!result) {
      silent_.insert(server);
      note_retry(server, procedure, args.object.fileid, result.error().message);
    } else {
      silent_.erase(server);
      if (result->status == nfs3::Status::kOk || (!until_done && result->status != nfs3::Status::kJukebox)) {
        co_return *result;
      }
      note_retry(server, procedure, args.object.fileid, nfs3::status_name(result->status));
    }
    if (!co_await gate_.pause(args.object.fileid, pause)) co_return R{.status = nfs3::Status::kJukebox};
    pause = std::min(pause * 2, kLongestRetryPause);
  }
}

namespace {

void merge(wire::ObjectStatusResult& /*into*/, const wire::ObjectStatusResult& /*other*/) {}

void learn(service::VerifierClock& /*clock*/, const wire::ObjectStatusResult& /*other*/) {}
void learn(service::VerifierClock& clock, const wire::ObjectCommitResult& other) {
  clock.see(other.verifier);
}

// As if one server had both parts, with the verifier of the one that lags.
void merge(wire::ObjectCommitResult& into, const wire::ObjectCommitResult& other) {
  into.verifier = std::min(into.verifier, other.verifier);
  add_holding(into, other);
}

}  // namespace

template <class R, class Args>
Task<R> Participants::ask_with_others(std::uint32_t server, wire::ObjectProcedure procedure, Args args,
                                      bool until_done, routing::FileHandle handle) {
  Duration pause = kFirstRetryPause;
  while (true) {
    R result = co_await ask<R>(server, procedure, args, until_done, handle);
    // Stripes of files with a layout are where that says, and move with no site.
    const wire::ServerEntry* entry = context_.tables.get()->server(server);
    const bool has_stripes = entry == nullptr || entry->role == wire::Role::kStorage;
    const bool stays = routing::has_layout(handle) && has_stripes && !context_.tables.get()->gone(server);
    if (result.status != nfs3::Status::kOk || stays) co_return result;
    // A small-file server that names another one may have done nothing itself.
    bool some_did = has_stripes || result.also.empty();
    std::vector<std::uint32_t> done{server}, left = result.also;
    bool all_did = true;
    while (all_did && !left.empty()) {
      const std::uint32_t other = left.back();
      left.pop_back();
      if (routing::has(done, other)) continue;
      done.push_back(other);
      others_.add();
      auto told = co_await gate_.unless_held(handle.fileid, ask_once<R>(other, procedure, args, false));
      if (!told) co_return R{.status = nfs3::Status::kJukebox};
      Result<R> more = std::move(*told);
      all_did = more && more->status == nfs3::Status::kOk;
      if (!all_did) {
        note_retry(other, procedure, args.object.fileid,
                   more ? nfs3::status_name(more->status) : std::string_view(more.error().message));
        continue;
      }
      learn(context_.verifier, result);
      learn(context_.verifier, *more);
      some_did = some_did || more->also.empty();
      merge(result, *more);
      left.insert(left.end(), more->also.begin(), more->also.end());
    }
    if (all_did && some_did) co_return result;
    if (!co_await gate_.pause(handle.fileid, pause)) co_return R{.status = nfs3::Status::kJukebox};
    pause = std::min(pause * 2, kLongestRetryPause);
  }
}

Task<wire::ObjectCommitResult> Participants::commit(std::uint32_t server, routing::FileHandle handle,
                                                    Verifier largest_seen, Generation known) {
  return ask_with_others<wire::ObjectCommitResult>(
      server, wire::ObjectProcedure::kCommit,
      wire::ObjectCommitArgs{object_of(context_, handle.fileid), largest_seen, known}, false, handle);
}

Task<bool> Participants::truncate(std::uint32_t server, routing::FileHandle handle, std::uint64_t size,
                                  Epoch epoch, Generation known) {
  auto result = co_await ask_with_others<wire::ObjectStatusResult>(
      server, wire::ObjectProcedure::kTruncate,
      wire::ObjectTruncateArgs{object_of(context_, handle.fileid), size, epoch, known}, true, handle);
  co_return result.status != nfs3::Status::kJukebox;
}

Task<bool> Participants::remove(std::uint32_t server, routing::FileHandle handle, Generation known) {
  auto result = co_await ask_with_others<wire::ObjectStatusResult>(
      server, wire::ObjectProcedure::kRemove,
      wire::ObjectRemoveArgs{object_of(context_, handle.fileid), known}, true, handle);
  co_return result.status != nfs3::Status::kJukebox;
}

}  // namespace slice::coordinator
