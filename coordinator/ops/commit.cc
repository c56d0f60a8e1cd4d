#include "coordinator/ops/commit.h"

#include <algorithm>
#include <utility>

#include "common/trace.h"
#include "service/room.h"

namespace slice::coordinator {

using NfsStatus = nfs3::Status;

namespace {

using service::AuthorityClient;
using service::NfsAnswer;

constexpr Duration kReportPause = std::chrono::milliseconds(200);

}  // namespace

CommitOperation::CommitOperation(service::ServiceContext& context, FileGate& gate, Intentions& intentions,
                                 Participants& participants, AuthorityClient& authority)
    : context_(context),
      gate_(gate),
      intentions_(intentions),
      participants_(participants),
      authority_(authority),
      single_(
          context.metrics.counter("coordinator_commits_single_total", "COMMITs that concerned one server")),
      several_(context.metrics.counter("coordinator_commits_several_total", "COMMITs over several")),
      informed_(context.metrics.counter("coordinator_verifier_laggards_total",
                                        "participants that had to be told a larger verifier")) {}

Task<NfsAnswer> CommitOperation::run(service::NfsRequest& request, rpc::XdrWriter& results) {
  if (NfsStatus type = service::check_transfer_type(request.handle); type != NfsStatus::kOk) co_return type;
  // Storage nodes say "striped" durably before they answer a file's first write, so only a fresh "no" counts.
  const service::KnownFile* before = authority_.peek(request.handle.fileid);
  auto freshness = before != nullptr && before->striped ? AuthorityClient::Freshness::kCached
                                                        : AuthorityClient::Freshness::kNow;
  const FileId file = request.handle.fileid;
  auto fetched = co_await gate_.unless_held(file, fetch(request.who, request.handle, freshness));
  if (!fetched) co_return NfsAnswer::again();
  Result<service::KnownFile> known = std::move(*fetched);
  if (!known) co_return std::move(known).error();

  Outcome outcome = co_await join_round(request.handle, known->striped);
  if (outcome.status == NfsStatus::kJukebox) co_return NfsAnswer::again();
  const service::KnownFile* after = authority_.peek(file);
  request.wcc.after = service::room_for(request.handle, after != nullptr ? *after : *known, {});
  if (outcome.status != NfsStatus::kOk) co_return outcome.status;
  nfs3::encode_result(results, nfs3::CommitOk{.wcc = request.wcc, .verifier = outcome.verifier});
  co_return NfsAnswer::written();
}

Task<void> CommitOperation::resume(storage::LogSequence sequence, const Intention& intention) {
  auto handle = context_.handles.open(intention.handle);
  if (!handle) {
    intentions_.end(sequence);
    co_return;
  }
  auto pass = gate_.enter(handle->fileid);
  Outcome outcome = co_await join_round(*handle, true);
  if (outcome.status == NfsStatus::kJukebox) {
    intentions_.leave(sequence);
  } else {
    intentions_.end(sequence);
  }
}

Task<Result<service::KnownFile>> CommitOperation::fetch(service::Identity who, routing::FileHandle handle,
                                                        AuthorityClient::Freshness freshness) {
  co_return co_await authority_.fetch_for_transfer(who, handle, true, freshness);
}

Task<slice::Status> CommitOperation::report_once(routing::FileHandle handle, wire::ObjectCommitResult all) {
  co_return co_await authority_.report(handle, all.epoch, all.end, all.mtime);
}

Task<CommitOperation::Outcome> CommitOperation::join_round(const routing::FileHandle& handle, bool striped) {
  FileId file = handle.fileid;
  Trace* const trace = co_await current_trace();
  auto [place, first] = rounds_.try_emplace(file);
  Rounds& rounds = place->second;
  rounds.handle = handle;
  rounds.striped = rounds.striped || striped;
  // One of those that share a round has its steps; to the others it is another's operation.
  const bool leads =
      trace != nullptr && std::none_of(rounds.next.begin(), rounds.next.end(),
                                       [](const Waiter& each) { return each.trace != nullptr; });
  OneShot<Outcome> done;
  rounds.next.push_back({done, leads ? trace->shared_from_this() : nullptr, context_.loop.now_exactly()});
  if (first) spawn(run_rounds(file));
  TraceScope shared(leads ? nullptr : trace, {.kind = TraceStep::Kind::kLock});
  co_return co_await done;
}

Task<CommitOperation::Outcome> CommitOperation::run_traced(routing::FileHandle handle, bool striped,
                                                           std::shared_ptr<Trace> trace) {
  co_await begin_trace(*trace);
  co_return co_await run_round(handle, striped);
}

Task<void> CommitOperation::run_rounds(FileId file) {
  for (bool again = false;; again = true) {
    auto place = rounds_.find(file);
    if (place->second.next.empty()) {
      rounds_.erase(place);
      co_return;
    }
    std::vector<Waiter> waiters = std::exchange(place->second.next, {});
    bool striped = std::exchange(place->second.striped, false);
    auto leader = std::find_if(waiters.begin(), waiters.end(),
                               [](const Waiter& each) { return each.trace != nullptr; });
    const bool traced = leader != waiters.end();
    if (traced && again) leader->trace->add({.kind = TraceStep::Kind::kLock}, leader->since);
    const routing::FileHandle handle = place->second.handle;
    Outcome outcome =
        co_await (traced ? run_traced(handle, striped, leader->trace) : run_round(handle, striped));
    for (const Waiter& waiter : waiters) {
      context_.loop.post([done = waiter.done, outcome] { done.set(outcome); });
    }
  }
}

// The intention is written beside the parts, which may be done twice without harm; once all parts have ended
// nothing is owed, so the answer does not wait for it.
Task<CommitOperation::Outcome> CommitOperation::run_round(routing::FileHandle handle, bool striped) {
  if (gate_.held(handle.fileid)) co_return Outcome{NfsStatus::kJukebox, {}};
  Participants::Chosen chosen = participants_.of(handle, striped);
  if (chosen.servers.size() <= 1) {
    single_.add();
    co_return co_await commit_everywhere(handle, std::move(chosen));
  }
  several_.add();
  auto sequence =
      intentions_.begin({.operation = Operation::kCommit, .handle = context_.handles.mint(handle)});
  if (sequence) spawn(make_durable(*sequence));
  co_await context_.crash.reach("commit.begun");
  Outcome outcome = co_await commit_everywhere(handle, std::move(chosen));
  if (sequence) intentions_.end(*sequence);
  co_return outcome;
}

Task<void> CommitOperation::make_durable(storage::LogSequence sequence) {
  (void)co_await intentions_.durable(sequence);  // a failure is counted there, and harms no COMMIT
  co_await context_.crash.reach("commit.durable");
}

Task<CommitOperation::Part> CommitOperation::commit_part(std::uint32_t server, routing::FileHandle handle,
                                                         Verifier largest_seen, Generation known) {
  Part part{server, co_await participants_.commit(server, handle, largest_seen, known)};
  if (part.result.status == NfsStatus::kNoEnt) {
    part.result = wire::ObjectCommitResult{.status = NfsStatus::kOk, .verifier = largest_seen};
  }
  if (part.result.status == NfsStatus::kOk) context_.verifier.see(part.result.verifier);
  co_await context_.crash.reach("commit.part");
  co_return part;
}

Task<CommitOperation::Outcome> CommitOperation::commit_everywhere(routing::FileHandle handle,
                                                                  Participants::Chosen chosen) {
  std::vector<Task<Part>> tasks;
  for (std::uint32_t server : chosen.servers) {
    tasks.push_back(commit_part(server, handle, context_.verifier.largest(), chosen.known));
  }
  Parts parts = co_await all(std::move(tasks));
  for (const Part& part : parts) {
    if (part.result.status != NfsStatus::kOk) co_return Outcome{part.result.status, {}};
  }
  Verifier verifier = co_await inform_laggards(handle, chosen.known, parts);
  for (const Part& part : parts) {
    if (part.result.status != NfsStatus::kOk) co_return Outcome{part.result.status, {}};
  }
  co_await context_.crash.reach("commit.parts");
  Outcome reported = co_await report(handle, parts);
  if (reported.status != NfsStatus::kOk) co_return reported;
  co_await context_.crash.reach("commit.reported");
  co_return Outcome{NfsStatus::kOk, verifier};
}

// A participant that went on answering WRITEs with an older verifier than this COMMIT's would make the client
// write everything again.
Task<Verifier> CommitOperation::inform_laggards(routing::FileHandle handle, Generation known, Parts& parts) {
  while (true) {
    Verifier largest = context_.verifier.largest();
    std::vector<Task<Part>> tasks;
    for (const Part& part : parts) {
      if (part.result.status == NfsStatus::kOk && part.result.verifier < largest) {
        tasks.push_back(commit_part(part.server, handle, largest, known));
      }
    }
    if (tasks.empty()) co_return largest;
    informed_.add(tasks.size());
    for (Part& again : co_await all(std::move(tasks))) {
      // One that ignores what it is told cannot be waited for: the client will write again, and lose nothing.
      if (again.result.status == NfsStatus::kOk)
        again.result.verifier = std::max(again.result.verifier, largest);
      auto part = std::find_if(parts.begin(), parts.end(),
                               [&](const Part& each) { return each.server == again.server; });
      *part = again;
    }
  }
}

Task<CommitOperation::Outcome> CommitOperation::report(const routing::FileHandle& handle,
                                                       const Parts& parts) {
  wire::ObjectCommitResult all;
  bool any = false;
  for (const Part& part : parts) any = add_holding(all, part.result) || any;
  if (!any) co_return Outcome{};
  do {
    auto status = co_await gate_.unless_held(handle.fileid, report_once(handle, all));
    if (!status) break;
    if (*status) co_return Outcome{};
    const Errc code = status->error().code;
    if (code != Errc::kUnavailable && code != Errc::kTimedOut)
      co_return Outcome{nfs3::status_of(status->error()), {}};
  } while (co_await gate_.pause(handle.fileid, kReportPause));
  co_return Outcome{NfsStatus::kJukebox, {}};
}

}  // namespace slice::coordinator
