// ONC RPC version 2 call and reply headers (RFC 5531 section 9).
#ifndef SLICE_RPC_MESSAGE_H
#define SLICE_RPC_MESSAGE_H

#include <cstdint>

#include "common/bytes.h"
#include "common/ids.h"
#include "common/result.h"
#include "rpc/auth.h"
#include "rpc/xdr.h"

namespace slice::rpc {

inline constexpr std::uint32_t kRpcVersion = 2;

enum class AcceptStat : std::uint32_t {
  kSuccess = 0,
  kProgramUnavailable = 1,
  kProgramMismatch = 2,
  kProcedureUnavailable = 3,
  kGarbageArguments = 4,
  kSystemError = 5,
};
enum class RejectStat : std::uint32_t { kRpcMismatch = 0, kAuthError = 1 };
enum class AuthStat : std::uint32_t {
  kOk = 0,
  kBadCredential = 1,
  kRejectedCredential = 2,
  kBadVerifier = 3,
  kRejectedVerifier = 4,
  kTooWeak = 5,
  kGssCredentialProblem = 13,  // of RPCSEC_GSS (RFC 2203 section 5.1): its context is to be made anew
  kGssContextProblem = 14      // likewise: it is used up
};

// A call as it lies in a record; the views point into the record.
struct CallHeader {
  Xid xid;
  std::uint32_t rpc_version = kRpcVersion;
  std::uint32_t program = 0;
  std::uint32_t version = 0;
  std::uint32_t procedure = 0;
  std::uint32_t credential_flavor = kAuthNone;
  ByteView credential;
  std::uint32_t verifier_flavor = kAuthNone;
  ByteView verifier;
  ByteView arguments;  // everything behind the header
};
// kInvalid where the bytes are not a call: too short, a reply, an authenticator over 400 bytes.
Result<CallHeader> decode_call(ByteView record);
// Header and arguments of a call, with the fields as given (arguments appended when not empty).
void encode_call(XdrWriter& out, const CallHeader& call);
// The header of a call with `verifier` in place of its own; the arguments are the caller's to append.
void encode_member_header(XdrWriter& out, const CallHeader& call, const SliceVerifier& verifier);

// Likewise of a call that is passed on from the client's own host.
void encode_client_header(XdrWriter& out, const CallHeader& call, const ClientVerifier& verifier);

struct ReplyHeader {
  Xid xid;
  bool accepted = true;
  AcceptStat accept_stat = AcceptStat::kSuccess;
  RejectStat reject_stat = RejectStat::kRpcMismatch;
  AuthStat auth_stat = AuthStat::kOk;
  ByteView results;  // everything behind the header, for kSuccess
};
Result<ReplyHeader> decode_reply(ByteView record);
// The 24 bytes before the results of an accepted, successful call (AUTH_NONE verifier).
void encode_success(XdrWriter& out, Xid xid);
// A whole reply to a NULL call that asked for TLS: it may be begun (RFC 9289 section 4.1).
void encode_starttls(XdrWriter& out, Xid xid);
// A whole reply that carries an error. For kProgramMismatch, low and high are the versions offered.
void encode_error(XdrWriter& out, Xid xid, AcceptStat stat, std::uint32_t low = 0, std::uint32_t high = 0);
void encode_auth_error(XdrWriter& out, Xid xid, AuthStat stat);
void encode_rpc_mismatch(XdrWriter& out, Xid xid);

// Record marking (RFC 5531 section 11).
// Bytes of a call, without record marks: servers close the connection that a longer one comes over.
inline constexpr std::size_t kMaxCall = (1 << 20) + 4096;
inline constexpr std::uint32_t kLastFragment = 0x80000000;

}  // namespace slice::rpc

#endif  // SLICE_RPC_MESSAGE_H
