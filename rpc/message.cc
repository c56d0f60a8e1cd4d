#include "rpc/message.h"

namespace slice::rpc {
namespace {

constexpr std::uint32_t kCallMessage = 0, kReplyMessage = 1;
constexpr std::uint32_t kAcceptedReply = 0, kDeniedReply = 1;

void encode_accepted(XdrWriter& out, Xid xid, AcceptStat stat, std::string_view verifier = {}) {
  out.u32(xid.value);
  out.u32(kReplyMessage);
  out.u32(kAcceptedReply);
  out.u32(kAuthNone);
  out.text(verifier);
  out.u32(static_cast<std::uint32_t>(stat));
}

void encode_to_credential(XdrWriter& out, const CallHeader& call) {
  out.u32(call.xid.value);
  out.u32(kCallMessage);
  out.u32(call.rpc_version);
  out.u32(call.program);
  out.u32(call.version);
  out.u32(call.procedure);
  out.u32(call.credential_flavor);
  out.opaque(call.credential);
}

void encode_denied(XdrWriter& out, Xid xid, RejectStat stat) {
  out.u32(xid.value);
  out.u32(kReplyMessage);
  out.u32(kDeniedReply);
  out.u32(static_cast<std::uint32_t>(stat));
}

void decode_accepted(XdrReader& in, ReplyHeader& out) {
  in.u32();  // verifier flavor: nothing is asked of a reply's verifier
  in.opaque(kMaxAuthBody);
  std::uint32_t stat = in.u32();
  if (stat > static_cast<std::uint32_t>(AcceptStat::kSystemError)) in.fail();
  out.accept_stat = static_cast<AcceptStat>(stat);
  if (out.accept_stat == AcceptStat::kProgramMismatch) in.u64();
}

void decode_denied(XdrReader& in, ReplyHeader& out) {
  std::uint32_t stat = in.u32();
  if (stat > static_cast<std::uint32_t>(RejectStat::kAuthError)) in.fail();
  out.reject_stat = static_cast<RejectStat>(stat);
  if (out.reject_stat == RejectStat::kRpcMismatch) {
    in.u64();
  } else {
    out.auth_stat = static_cast<AuthStat>(in.u32());
  }
}

}  // namespace

Result<CallHeader> decode_call(ByteView record) {
  XdrReader in(record);
  CallHeader out;
  out.xid = Xid{in.u32()};
  std::uint32_t direction = in.u32();
  out.rpc_version = in.u32();
  if (!in.ok() || direction != kCallMessage)
    return fail(Errc::kInvalid, "{} bytes that are no call", record.size());
  if (out.rpc_version != kRpcVersion) return out;  // what follows is not ours to read
  out.program = in.u32();
  out.version = in.u32();
  out.procedure = in.u32();
  out.credential_flavor = in.u32();
  out.credential = in.opaque(kMaxAuthBody);
  out.verifier_flavor = in.u32();
  out.verifier = in.opaque(kMaxAuthBody);
  if (!in.ok()) return fail(Errc::kInvalid, "call header of {} bytes is malformed", record.size());
  out.arguments = in.rest();
  return out;
}

void encode_call(XdrWriter& out, const CallHeader& call) {
  encode_to_credential(out, call);
  out.u32(call.verifier_flavor);
  out.opaque(call.verifier);
  out.fixed(call.arguments);
}

void encode_member_header(XdrWriter& out, const CallHeader& call, const SliceVerifier& verifier) {
  encode_to_credential(out, call);
  encode_slice_verifier(out, verifier);
}

void encode_client_header(XdrWriter& out, const CallHeader& call, const ClientVerifier& verifier) {
  encode_to_credential(out, call);
  encode_client_verifier(out, verifier);
}

Result<ReplyHeader> decode_reply(ByteView record) {
  XdrReader in(record);
  ReplyHeader out;
  out.xid = Xid{in.u32()};
  std::uint32_t direction = in.u32();
  std::uint32_t how = in.u32();
  if (direction != kReplyMessage || how > kDeniedReply) in.fail();
  out.accepted = how == kAcceptedReply;
  if (out.accepted) {
    decode_accepted(in, out);
  } else {
    decode_denied(in, out);
  }
  if (!in.ok()) return fail(Errc::kInvalid, "{} bytes that are no reply", record.size());
  out.results = in.rest();
  return out;
}

void encode_success(XdrWriter& out, Xid xid) {
  encode_accepted(out, xid, AcceptStat::kSuccess);
}

void encode_starttls(XdrWriter& out, Xid xid) {
  encode_accepted(out, xid, AcceptStat::kSuccess, "STARTTLS");
}

void encode_error(XdrWriter& out, Xid xid, AcceptStat stat, std::uint32_t low, std::uint32_t high) {
  encode_accepted(out, xid, stat);
  if (stat != AcceptStat::kProgramMismatch) return;
  out.u32(low);
  out.u32(high);
}

void encode_auth_error(XdrWriter& out, Xid xid, AuthStat stat) {
  encode_denied(out, xid, RejectStat::kAuthError);
  out.u32(static_cast<std::uint32_t>(stat));
}

void encode_rpc_mismatch(XdrWriter& out, Xid xid) {
  encode_denied(out, xid, RejectStat::kRpcMismatch);
  out.u32(kRpcVersion);
  out.u32(kRpcVersion);
}

}  // namespace slice::rpc
