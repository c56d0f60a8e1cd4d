#include "rpc/call.h"

namespace slice::rpc {
namespace {

constexpr std::string_view kKeysDiffer = "this host's key differs from the peer's";

}  // namespace

Buffer encode_request(const Request& request, Xid xid, const Caller& caller, std::size_t headroom) {
  Buffer credential;
  CallHeader header{.xid = xid,
                    .program = request.program,
                    .version = request.version,
                    .procedure = request.procedure,
                    .arguments = request.arguments.view()};
  if (request.credential) {
    XdrWriter writer;
    encode_auth_sys(writer, *request.credential);
    credential = writer.take();
    header.credential_flavor = kAuthSys;
    header.credential = credential.view().subspan(8);
  }
  Buffer buffer;
  buffer.reserve(headroom + 40 + credential.size() + 44 + request.arguments.size());
  buffer.resize(headroom);
  XdrWriter out(std::move(buffer));
  if (!caller.member) {
    encode_call(out, header);
    return out.take();
  }
  SliceVerifier verifier{.sender = caller.sender,
                         .generation = caller.generation,
                         .client = request.on_behalf.client,
                         .client_xid = request.on_behalf.xid,
                         .relays = request.on_behalf.relays,
                         .datagram = request.on_behalf.datagram,
                         .layout = request.on_behalf.layout,
                         .security = request.on_behalf.security,
                         .own = request.on_behalf.own};
  encode_member_header(out, header, verifier);
  out.fixed(header.arguments);
  return out.take();
}

// Sent nevertheless it would be sent again and again, with whatever else is under way on its connection.
Status check_call_size(const Request& request, std::size_t size) {
  if (size <= kMaxCall) return {};
  return fail(Errc::kTooLarge, "a call of {} bytes to {} (program {}, procedure {}): servers take {}", size,
              to_string(request.to), request.program, request.procedure, kMaxCall);
}

TraceStep step_of(const Request& request, Xid xid) {
  return {.kind = TraceStep::Kind::kCall,
          .address = request.to.address,
          .port = request.to.port,
          .program = request.program,
          .procedure = request.procedure,
          .xid = xid.value};
}

Result<Response> open_response(Buffer record, std::size_t at) {
  auto header = decode_reply(record.view().subspan(at));
  if (!header) return fail(std::move(header).error());
  if (!header->accepted) {
    if (header->reject_stat == RejectStat::kRpcMismatch) {
      return fail(Errc::kInvalid, "the peer does not speak RPC version {}", kRpcVersion);
    }
    return fail(Errc::kDenied, "the peer refused the call's authentication (auth_stat {})",
                static_cast<std::uint32_t>(header->auth_stat));
  }
  switch (header->accept_stat) {
    case AcceptStat::kSuccess:
      break;
    case AcceptStat::kSystemError:
      return fail(Errc::kIo, "the peer answered SYSTEM_ERR");
    case AcceptStat::kGarbageArguments:
      return fail(Errc::kInvalid, "the peer could not decode the arguments");
    case AcceptStat::kProgramUnavailable:
    case AcceptStat::kProgramMismatch:
    case AcceptStat::kProcedureUnavailable:
      return fail(Errc::kInvalid, "the peer does not serve this procedure (accept_stat {})",
                  static_cast<std::uint32_t>(header->accept_stat));
  }
  std::size_t results_at = record.size() - header->results.size();
  return Response{std::move(record), results_at};
}

Error other_key() {
  return Error{Errc::kDenied, std::string(kKeysDiffer)};
}

bool keys_differ(const Error& error) {
  return error.code == Errc::kDenied && error.message == kKeysDiffer;
}

}  // namespace slice::rpc
