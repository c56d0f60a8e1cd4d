#include "service/nfs_program.h"

#include <algorithm>
#include <optional>

#include "common/trace.h"
#include "routing/copies.h"
#include "rpc/endpoint.h"
#include "service/authority_client.h"

namespace slice::service {
namespace {

using nfs3::Procedure;

bool changes_something(Procedure procedure) {
  switch (procedure) {
    case Procedure::kSetattr:
    case Procedure::kWrite:
    case Procedure::kCreate:
    case Procedure::kMkdir:
    case Procedure::kSymlink:
    case Procedure::kMknod:
    case Procedure::kRemove:
    case Procedure::kRmdir:
    case Procedure::kRename:
    case Procedure::kLink:
    case Procedure::kSetacl:
      return true;
    default:
      return false;
  }
}

// COMMIT changes nothing, but is asked only for what was written, and makes servers work.
bool needs_writable_export(Procedure procedure) {
  return changes_something(procedure) || procedure == Procedure::kCommit;
}

nfs3::Status status_of(ByteView results) {
  return results.size() < 4 ? nfs3::Status::kServerFault
                            : static_cast<nfs3::Status>(load_be<std::uint32_t>(results.data()));
}

// A WRITE's results, where they have room for attributes, which a proxy must fill.
std::optional<nfs3::WriteOk> with_room(std::string_view results) {
  rpc::XdrReader in(as_bytes(results));
  nfs3::Status status{};
  nfs3::WriteOk ok;
  if (!nfs3::decode_result(in, status, ok) || !ok.wcc.after) return std::nullopt;
  return ok;
}

bool worth_a_line(const Error& error) {
  return error.code == Errc::kIo || error.code == Errc::kCorrupt || error.code == Errc::kUnavailable ||
         error.code == Errc::kTimedOut;
}

// For so long a call over TCP is done again whose outcome is not known; then its client sends it again.
constexpr Duration kRepeatFor = std::chrono::seconds(45);
constexpr Duration kRepeatPause = std::chrono::milliseconds(500);

}  // namespace

NfsProgram::NfsProgram(ServiceContext& context, wire::Role site_class, SiteGate* gate)
    : context_(context),
      settings_(context.settings),
      site_class_(site_class),
      gate_(gate),
      clients_(context.metrics, context.config.metrics.clients),
      bad_handles_(context.metrics.counter("nfs_bad_handles_total",
                                           "file handles with a wrong MAC, volume or layout")),
      misdirected_(context.metrics.counter("nfs_misdirected_total", "requests for sites of other servers")),
      refused_clients_(
          context.metrics.counter("nfs_refused_clients_total", "calls of clients that no export names")),
      repeated_(context.metrics.counter("nfs_repeated_calls_total",
                                        "calls over TCP that were done again, since it was not known whether "
                                        "they had been")),
      unreserved_ports_(context.metrics.counter("nfs_unreserved_ports_total",
                                                "calls from ports of 1024 and above whose export is secure")),
      relay_(context),
      late_writes_(context.loop),
      relayed_changes_(context.loop),
      refusals_(context.metrics) {
  for (std::uint32_t i = 0; i < nfs3::kProcedureCount; ++i) {
    const std::string_view name = nfs3::procedure_name(i);
    figures_[i] = {
        .calls =
            &context.metrics.counter("nfs_calls_total", "NFS calls, by procedure", {{"procedure", name}}),
        .failures = &context.metrics.counter(
            "nfs_failures_total", "NFS calls answered with another status than NFS3_OK, by procedure",
            {{"procedure", name}}),
        .latency = &context.metrics.histogram(
            "nfs_latency_seconds",
            "time from when a call could be read to its reply, by procedure; calls that are dropped, too",
            {{"procedure", name}})};
  }
}

Task<rpc::Outcome> NfsProgram::handle(const rpc::Call& call, rpc::XdrWriter& results) {
  if (nfs3::on_the_wire(call.procedure).program != nfs3::kProgram) co_return rpc::Outcome::kNoProcedure;
  co_return co_await serve(call, results);
}

Task<rpc::Outcome> NfsProgram::AclProgram::handle(const rpc::Call& call, rpc::XdrWriter& results) {
  const auto procedure = nfs3::of_acl_program(call.procedure);
  if (!procedure) co_return rpc::Outcome::kNoProcedure;
  rpc::Call numbered = call;
  numbered.procedure = *procedure;
  co_return co_await nfs_.serve(numbered, results);
}

Task<rpc::Outcome> NfsProgram::serve(const rpc::Call& call, rpc::XdrWriter& results) {
  Figures& figures = figures_[call.procedure];
  figures.calls->add();
  if (call.procedure == static_cast<std::uint32_t>(Procedure::kNull)) co_return rpc::Outcome::kReply;
  MonoTime began = context_.loop.now();
  NfsRequest request{.call = call, .procedure = static_cast<Procedure>(call.procedure)};
  rpc::XdrReader in(call.arguments);
  if (!nfs3::decode_handle(in, request.handle_bytes)) {
    figures.failures->add();
    co_return rpc::Outcome::kGarbage;
  }
  std::size_t start = results.size();
  std::optional<NfsAnswer> answer = admit(request);
  const bool admitted = !answer;
  if (admitted) answer = co_await run_once(request, results);
  // Over UDP its client would send the same call again soon, over TCP after a minute: so this server does.
  while (answer->is_dropped() && !call.datagram && context_.loop.now() - began < kRepeatFor) {
    repeated_.add();
    co_await context_.loop.sleep(kRepeatPause);
    results.rewind(start);
    request.attributes = {};
    request.wcc = {};
    answer = co_await run_once(request, results);
  }
  rpc::Outcome outcome = finish(*answer, request, start, results);
  if (admitted) clients_.count(call.client.address, call.arguments.size(), results.size() - start);
  figures.latency->observe(context_.loop.now_exactly() - began);
  co_return outcome;
}

Task<NfsAnswer> NfsProgram::run_once(NfsRequest& request, rpc::XdrWriter& results) {
  return request.procedure == Procedure::kWrite ? run_write_once(request, results) : run(request, results);
}

// WRITEs are known otherwise; and what another server has passed on, that one knows.
bool NfsProgram::passed_on_once(const NfsRequest& request) {
  return request.call.relays == 0 && changes_something(request.procedure) &&
         request.procedure != Procedure::kWrite;
}

Task<std::optional<NfsAnswer>> NfsProgram::answer_to_copy(const NfsRequest& request,
                                                          rpc::XdrWriter& results) {
  RelayedChanges::Seen seen = relayed_changes_.look(request.call);
  while (seen.state == RelayedChanges::Seen::State::kUnderWay && !request.call.datagram) {
    co_await relayed_changes_.over(RelayedChanges::key_of(request.call));
    seen = relayed_changes_.look(request.call);
  }
  if (seen.state == RelayedChanges::Seen::State::kNew) co_return std::nullopt;
  if (seen.state == RelayedChanges::Seen::State::kUnderWay) co_return NfsAnswer::drop();
  results.fixed(as_bytes(seen.results));
  co_return NfsAnswer::written(status_of(as_bytes(seen.results)));
}

Task<NfsAnswer> NfsProgram::run(NfsRequest& request, rpc::XdrWriter& results) {
  if (passed_on_once(request) && !relayed_changes_.empty()) {
    if (auto answer = co_await answer_to_copy(request, results)) co_return std::move(*answer);
  }
  const std::size_t start = results.size();
  while (true) {
    const std::optional<routing::Route> place = place_of(request);
    request.gated_site = gated_site(request, place);
    if (request.gated_site && gate_->holds(*request.gated_site)) {
      TraceScope held(co_await current_trace(), {.kind = TraceStep::Kind::kHeld});
      if (!co_await gate_->released(*request.gated_site)) co_return nfs3::Status::kJukebox;
      continue;
    }
    if (!owns(request, place)) {
      if (auto answer = co_await redirect(request, results)) co_return std::move(*answer);
      continue;
    }
    std::optional<SiteGate::Pass> pass;
    if (request.gated_site) pass.emplace(*gate_, *request.gated_site);
    NfsAnswer answer = co_await around(operations_[request.call.procedure], request, results);
    if (!answer.runs_again()) co_return answer;
    results.rewind(start);
  }
}

Task<NfsAnswer> NfsProgram::run_write_once(NfsRequest& request, rpc::XdrWriter& results) {
  LateWrites::Seen seen = late_writes_.begin(request.call);
  // Told to wait, the client would send a new call, and the one that is under way be done behind that one.
  // Over a new connection no other copy comes soon, and the first one's answer goes to the old one.
  const auto waits = [&] {
    const bool comes_once = seen.state == LateWrites::Seen::State::kUnderWay && !request.call.datagram;
    return seen.state == LateWrites::Seen::State::kPassedOn || comes_once;
  };
  while (waits()) {
    co_await late_writes_.over(seen.key);
    seen = late_writes_.begin(request.call);
  }
  if (seen.state == LateWrites::Seen::State::kUnderWay) co_return NfsAnswer::drop();
  // Whoever passed it on is not to wait for itself: neither it nor this server has done it.
  if (seen.state == LateWrites::Seen::State::kComesBack) co_return nfs3::Status::kJukebox;
  if (seen.state == LateWrites::Seen::State::kAnswered) {
    if (seen.status != nfs3::Status::kOk) co_return seen.status;
    co_return co_await answer_write_again(request, std::string(seen.reply), results);
  }
  std::size_t start = results.size();
  request.passed_on = seen.passed_on;
  NfsAnswer answer = co_await run(request, results);
  if (std::optional<nfs3::Status> status = answer.final_status()) {
    late_writes_.end(seen.key, *status, as_text(results.view()).substr(start),
                     request.gated_site.value_or(0));
  } else {
    late_writes_.forget(seen.key);
  }
  co_return answer;
}

// Where the first copy's proxy was to fill room and this one's cannot (it is another, or knows the file no
// more), the authority may not know of the write yet, and the client asks it next. So it is told first, as
// for a WRITE that comes without a hint; the room says of what (service/room.h). To be told twice changes
// nothing: sizes and times only grow, under the epoch and the time of the write.
Task<NfsAnswer> NfsProgram::answer_write_again(const NfsRequest& request, std::string kept,
                                               rpc::XdrWriter& results) {
  // Told to wait, the client sends a new call, which is carried out by what its proxy knows now.
  if (kept.empty()) co_return nfs3::Status::kJukebox;
  std::optional<nfs3::WriteOk> ok = with_room(kept);
  if (!ok || request.handle.hint.can_patch) {
    results.fixed(as_bytes(kept));
    co_return NfsAnswer::written();
  }
  const nfs3::Attributes room = *ok->wcc.after;
  // `used`: behind the last byte written; 0 where nothing was, or under an epoch that is over.
  if (authority_ == nullptr || room.nlink != 0 || room.used == 0) co_return nfs3::Status::kJukebox;
  Status told = co_await authority_->report(request.handle, Epoch{room.rdev_major}, room.used, room.mtime);
  if (!told) co_return nfs3::Status::kJukebox;
  ok->wcc = {};
  nfs3::encode_result(results, *ok);
  co_return NfsAnswer::written();
}

NfsAnswer NfsAnswer::anothers(const rpc::Call& call, ByteView theirs, rpc::XdrWriter& results) {
  const bool sent_too_early = wire::decode_sent_too_early(theirs).has_value();
  if (sent_too_early && call.layout.version == 0) return nfs3::Status::kJukebox;
  results.fixed(theirs);
  return sent_too_early ? not_done() : written(status_of(theirs));
}

std::optional<nfs3::Status> NfsAnswer::final_status() const {
  if (const auto* written = std::get_if<Written>(&value_)) {
    return written->final ? std::optional(written->status) : std::nullopt;
  }
  if (const auto* status = std::get_if<nfs3::Status>(&value_)) return *status;
  if (const auto* error = std::get_if<Error>(&value_)) return nfs3::status_of(*error);
  return std::nullopt;
}

std::optional<NfsAnswer> NfsProgram::admit(NfsRequest& request) {
  auto handle = context_.handles.open(request.handle_bytes);
  if (!handle) {
    bad_handles_.add();
    refuse(request, rpc::Refused::kHandle);
    return nfs3::Status::kBadHandle;
  }
  request.handle = *handle;
  auto who = identify(settings_.now(), request.handle.tree, request.call);
  if (!who) {
    if (who.error() == Stranger::kNoExport) refused_clients_.add();
    if (who.error() == Stranger::kUnreservedPort) unreserved_ports_.add();
    refuse(request, refused(who.error()));
    return nfs3::Status::kAcces;
  }
  request.who = std::move(*who);
  if (request.who.read_only && needs_writable_export(request.procedure)) {
    refuse(request, rpc::Refused::kReadOnly);
    return nfs3::Status::kRofs;
  }
  return std::nullopt;
}

void NfsProgram::refuse(const NfsRequest& request, rpc::Refused why) {
  refusals_.note(why, request.call.client, "{} of file {:#x}", nfs3::procedure_name(request.call.procedure),
                 request.handle.fileid.value);
}

std::optional<routing::Route> NfsProgram::place_of(const NfsRequest& request) const {
  // The proxy may have known a COMMIT's size or not: a small-file server takes what is its own, and a
  // coordinator's COMMIT covers every server.
  std::optional<std::uint64_t> size;
  if (site_class_ == wire::Role::kSmallFile) size = 0;
  return context_.tables.get()->place_of(request.procedure, request.call.arguments, size);
}

std::optional<std::uint32_t> NfsProgram::gated_site(const NfsRequest& request,
                                                    const std::optional<routing::Route>& place) const {
  if (gate_ == nullptr || !place || place->site_class != site_class_) return std::nullopt;
  // Stripes of files with a layout are where that says; below the threshold they are like others.
  if (site_class_ == wire::Role::kStorage && routing::has_layout(request.handle)) return std::nullopt;
  return place->site.value;
}

bool NfsProgram::owns(const NfsRequest& request, std::optional<routing::Route> place) const {
  if (!operations_[static_cast<std::size_t>(request.procedure)]) return false;
  if (!place) return true;  // the operation's to refuse
  return place->site_class == site_class_ &&
         routing::may_serve(*context_.tables.get(), context_.self.index, *place, request.handle);
}

Task<std::optional<NfsAnswer>> NfsProgram::redirect(NfsRequest& request, rpc::XdrWriter& results) {
  const rpc::Call& call = request.call;
  if (call.generation > context_.tables.get()->generation() && context_.refresh_tables) {
    co_await context_.refresh_tables();
  }
  std::optional<routing::Route> place = place_of(request);
  if (owns(request, place)) co_return std::nullopt;
  misdirected_.add();
  if (misdirected_log_.allow()) {
    log_warning("misdirected {} client={} file={:#x} sender_generation={} generation={} relays={}",
                nfs3::procedure_name(call.procedure), rpc::to_string(call.client),
                request.handle.fileid.value, call.generation.value, context_.tables.get()->generation().value,
                call.relays);
  }
  if (!place) co_return NfsAnswer::garbage();
  co_return co_await (passed_on_once(request) ? relay_once(request, *place, results)
                                              : relay(request, *place, results));
}

Task<NfsAnswer> NfsProgram::relay_once(const NfsRequest& request, routing::Route place,
                                       rpc::XdrWriter& results) {
  if (auto answer = co_await answer_to_copy(request, results)) co_return std::move(*answer);
  const RelayedChanges::Key key = RelayedChanges::key_of(request.call);
  relayed_changes_.begin(key);
  const std::size_t start = results.size();
  NfsAnswer answer = co_await relay(request, place, results);
  const std::string_view said = as_text(results.view()).substr(start);
  if (said.empty()) {
    relayed_changes_.forget(key);
  } else {
    relayed_changes_.end(key, said);
  }
  co_return answer;
}

Task<NfsAnswer> NfsProgram::relay(const NfsRequest& request, routing::Route place, rpc::XdrWriter& results) {
  // The owner itself, which has no such operation: nobody has.
  const std::uint32_t owner = routing::server_for(*context_.tables.get(), place, request.handle);
  if (owner == context_.self.index) co_return nfs3::Status::kNotSupp;
  request.note_passed_on();
  auto reply = co_await relay_.pass_on(request.call, place, owner);
  if (reply) co_return NfsAnswer::anothers(request.call, reply->results(), results);
  switch (reply.error().code) {
    case Errc::kInvalid:
      co_return NfsAnswer::garbage();
    case Errc::kIo:
      co_return nfs3::Status::kServerFault;
    case Errc::kTimedOut:
    case Errc::kUnavailable:
      // Whether it was executed, or will be, is not known. Without an answer the client repeats the same
      // call; told to wait it would send a new one, which is not known for what it is, and the old one might
      // be carried out behind that and what came after it.
      if (changes_something(request.procedure)) co_return NfsAnswer::drop();
      co_return nfs3::Status::kJukebox;
    default:
      // This copy was not executed, but one before it may have been: who sends the same call again soon, as
      // over UDP, had better do that.
      if (changes_something(request.procedure) && request.call.datagram) co_return NfsAnswer::drop();
      co_return nfs3::Status::kJukebox;
  }
}

rpc::Outcome NfsProgram::finish(const NfsAnswer& answer, const NfsRequest& request, std::size_t start,
                                rpc::XdrWriter& results) {
  Counter& failures = *figures_[request.call.procedure].failures;
  if (std::holds_alternative<NfsAnswer::Drop>(answer.value_)) return rpc::Outcome::kDrop;
  if (std::holds_alternative<NfsAnswer::Garbage>(answer.value_)) {
    failures.add();
    return rpc::Outcome::kGarbage;
  }
  if (const auto* written = std::get_if<NfsAnswer::Written>(&answer.value_)) {
    if (written->status != nfs3::Status::kOk) failures.add();
    return rpc::Outcome::kReply;
  }
  failures.add();
  nfs3::Status status = nfs3::Status::kServerFault;
  if (const auto* error = std::get_if<Error>(&answer.value_)) {
    status = nfs3::status_of(*error);
    if (worth_a_line(*error) && failure_log_.allow()) {
      log_warning("{} failed file={:#x} client={} status={} reason={}",
                  nfs3::procedure_name(request.call.procedure), request.handle.fileid.value,
                  rpc::to_string(request.call.client), nfs3::status_name(status), error->message);
    }
  } else if (const auto* plain = std::get_if<nfs3::Status>(&answer.value_)) {
    // An operation that fails with kOk has not written its results: a programmer's error, never a success.
    if (*plain != nfs3::Status::kOk) status = *plain;
  }
  results.rewind(start);
  nfs3::encode_failure(results, request.procedure, status, request.attributes, request.wcc);
  return rpc::Outcome::kReply;
}

std::uint32_t largest_transfer(const NfsRequest& request) {
  return request.call.datagram ? nfs3::kMaxUdpTransfer : nfs3::kMaxTransfer;
}

nfs3::Status check_transfer_type(const routing::FileHandle& handle) {
  if (handle.type == nfs3::FileType::kRegular) return nfs3::Status::kOk;
  return handle.type == nfs3::FileType::kDirectory ? nfs3::Status::kIsDir : nfs3::Status::kInval;
}

nfs3::Status check_write(const routing::FileHandle& handle, const nfs3::WriteArgs& args) {
  nfs3::Status type = check_transfer_type(handle);
  if (type == nfs3::Status::kOk && args.data.size() != args.count) return nfs3::Status::kInval;
  return type;
}

}  // namespace slice::service
