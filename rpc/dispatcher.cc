#include "rpc/dispatcher.h"

#include <algorithm>

namespace slice::rpc {
namespace {

constexpr std::size_t kTypicalReply = 320;  // header, attributes, wcc_data: one allocation for most replies

}  // namespace

Dispatcher::Dispatcher(Metrics& metrics)
    : refusals_(metrics),
      calls_(metrics.counter("rpc_calls_total", "RPC calls that were dispatched")),
      not_calls_(metrics.counter("rpc_records_not_calls_total",
                                 "records and datagrams that were no RPC calls at all")),
      denied_(metrics.counter("rpc_calls_denied_total",
                              "calls refused by their verifier, and calls of internal programs from outside; "
                              "grows when somebody tries, or keys differ")),
      garbage_(metrics.counter("rpc_calls_garbage_total", "calls whose arguments did not decode")),
      no_procedure_(
          metrics.counter("rpc_calls_unknown_total", "calls of unknown programs, versions or procedures")),
      errors_(metrics.counter("rpc_calls_system_error_total", "calls answered SYSTEM_ERR")),
      dropped_(metrics.counter("rpc_calls_dropped_total",
                               "calls left without an answer on purpose: duplicates of calls under way")) {}

void Dispatcher::add(Program& program) {
  programs_.push_back(&program);
}

// The program, or nothing after the error was written.
Program* Dispatcher::find(std::uint32_t program, std::uint32_t version, XdrWriter& out, Xid xid) {
  std::uint32_t low = ~0u, high = 0;
  for (Program* each : programs_) {
    if (each->number() != program) continue;
    if (each->version() == version) return each;
    low = std::min(low, each->version());
    high = std::max(high, each->version());
  }
  if (low > high) {
    encode_error(out, xid, AcceptStat::kProgramUnavailable);
  } else {
    encode_error(out, xid, AcceptStat::kProgramMismatch, low, high);
  }
  return nullptr;
}

AuthStat Dispatcher::read_verifier(const CallHeader& header, Carrier carrier, Call& call) {
  if (!carrier.member) return AuthStat::kRejectedVerifier;
  auto verifier = decode_slice_verifier(header.verifier);
  if (!verifier) return AuthStat::kBadVerifier;
  call.sender = verifier->sender;
  call.generation = verifier->generation;
  const bool named = verifier->client != Endpoint{};
  call.own = named && verifier->own;
  call.forwarded = named && !call.own;
  call.internal = !call.forwarded;
  call.relays = verifier->relays;
  call.layout = verifier->layout;
  call.datagram = call.datagram || verifier->datagram;
  if (named) {
    call.client = verifier->client;
    call.security = verifier->security;
    call.xid = verifier->client_xid;
  }
  return AuthStat::kOk;
}

// Members have a verifier of their own for whom they speak for.
AuthStat Dispatcher::read_client_verifier(const CallHeader& header, Carrier carrier, Call& call) {
  auto verifier = decode_client_verifier(header.verifier);
  if (!verifier) return AuthStat::kBadVerifier;
  if (carrier.member || !apply(*verifier, call.client, call.xid)) return AuthStat::kRejectedVerifier;
  return AuthStat::kOk;
}

AuthStat Dispatcher::authenticate(const CallHeader& header, Endpoint peer, Carrier carrier, Call& call) {
  call.client = peer;
  call.datagram = carrier.datagram;
  if (header.credential_flavor == kAuthSys) {
    auto credential = decode_auth_sys(header.credential, carrier.member ? kMostGroups : kMaxAuthSysGroups);
    if (!credential) return AuthStat::kBadCredential;
    call.credential = std::move(*credential);
    call.has_auth_sys = true;
  } else if (header.credential_flavor != kAuthNone) {
    return AuthStat::kRejectedCredential;
  }
  if (header.verifier_flavor == kAuthSlice) return read_verifier(header, carrier, call);
  if (header.verifier_flavor == kAuthClient) return read_client_verifier(header, carrier, call);
  return AuthStat::kOk;
}

Task<std::optional<Buffer>> Dispatcher::dispatch(Buffer record, Endpoint peer, std::size_t headroom,
                                                 Carrier carrier) {
  auto header = decode_call(record.view());
  if (!header) {
    not_calls_.add();
    log_debug("ignored {} from={}", header.error().message, to_string(peer));
    co_return std::nullopt;
  }
  calls_.add();
  Buffer buffer;
  buffer.reserve(headroom + kTypicalReply);
  buffer.resize(headroom);
  XdrWriter out(std::move(buffer));
  if (header->rpc_version != kRpcVersion) {
    encode_rpc_mismatch(out, header->xid);
    co_return out.take();
  }
  Call call{.xid = header->xid,
            .carried = header->xid,
            .procedure = header->procedure,
            .arguments = header->arguments};
  AuthStat auth = authenticate(*header, peer, carrier, call);
  if (auth != AuthStat::kOk) {
    denied_.add();
    refusals_.note(Refused::kVerifier, peer, "program={} procedure={} auth_stat={}", header->program,
                   header->procedure, static_cast<std::uint32_t>(auth));
    encode_auth_error(out, header->xid, auth);
    co_return out.take();
  }
  Program* program = find(header->program, header->version, out, header->xid);
  if (program == nullptr) {
    no_procedure_.add();
    co_return out.take();
  }
  encode_success(out, header->xid);
  if (call.procedure == 0) co_return out.take();

  Outcome outcome = co_await program->handle(call, out);
  if (outcome == Outcome::kReply) co_return out.take();
  if (outcome == Outcome::kDrop) {
    dropped_.add();
    co_return std::nullopt;
  }
  out.rewind(headroom);
  encode_refusal(outcome, *header, call, out);
  co_return out.take();
}

void Dispatcher::encode_refusal(Outcome outcome, const CallHeader& header, const Call& call, XdrWriter& out) {
  switch (outcome) {
    case Outcome::kGarbage:
      garbage_.add();
      if (garbage_log_.allow()) {
        log_warning("refused a call: malformed arguments program={} procedure={} from={}", header.program,
                    header.procedure, to_string(call.client));
      }
      encode_error(out, header.xid, AcceptStat::kGarbageArguments);
      break;
    case Outcome::kNoProcedure:
      no_procedure_.add();
      encode_error(out, header.xid, AcceptStat::kProcedureUnavailable);
      break;
    case Outcome::kDenied:
      denied_.add();
      refusals_.note(Refused::kNotMember, call.client, "program={} procedure={}", header.program,
                     header.procedure);
      encode_auth_error(out, header.xid, AuthStat::kTooWeak);
      break;
    case Outcome::kReply:
    case Outcome::kDrop:
    case Outcome::kError:
      errors_.add();
      encode_error(out, header.xid, AcceptStat::kSystemError);
      break;
  }
}

}  // namespace slice::rpc
