// Credentials and verifiers: AUTH_NONE and AUTH_SYS (RFC 5531 section 8, appendix A), and two verifier
// flavors of our own: kAuthSlice, by which servers and proxies of the ensemble know each other, and
// kAuthClient, of a proxy on the client's own host.
#ifndef SLICE_RPC_AUTH_H
#define SLICE_RPC_AUTH_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/bytes.h"
#include "common/config.h"
#include "common/ids.h"
#include "common/result.h"
#include "rpc/endpoint.h"
#include "rpc/xdr.h"

namespace slice::rpc {

inline constexpr std::uint32_t kAuthNone = 0;
inline constexpr std::uint32_t kAuthSys = 1;
inline constexpr std::uint32_t kAuthGss = 6;              // RPCSEC_GSS (RFC 2203)
inline constexpr std::uint32_t kAuthTls = 7;              // a NULL call asks for TLS (RFC 9289 section 4.1)
inline constexpr std::uint32_t kAuthSlice = 0x534c4943;   // "SLIC": of the user-defined range
inline constexpr std::uint32_t kAuthClient = 0x534c434c;  // "SLCL"
inline constexpr std::size_t kMaxAuthBody = 400;          // RFC 5531 section 8.2
inline constexpr std::size_t kMaxAuthSysGroups = 16;
// In calls of members: as many as a body has room for. Proxies know more of users who come by Kerberos.
inline constexpr std::size_t kMostGroups = (kMaxAuthBody - 20) / 4;
inline constexpr std::uint32_t kNoUser =
    0xffffffff;  // uid and gid of whom nobody knows: exports(5)'s anonymous
inline constexpr std::size_t kMaxMachineName = 255;

// AUTH_SYS. For AUTH_NONE servers use uid and gid 65534 (nobody).
struct AuthSys {
  std::uint32_t stamp = 0;
  std::string machine_name;
  std::uint32_t uid = 65534;
  std::uint32_t gid = 65534;
  std::vector<std::uint32_t> groups;
};
// Decodes a credential's body; kInvalid for anything malformed (length, more groups than that, bytes left).
Result<AuthSys> decode_auth_sys(ByteView body, std::size_t most_groups = kMaxAuthSysGroups);
// Flavor, length and body; the first groups that it has room for.
void encode_auth_sys(XdrWriter& out, const AuthSys& credential);

// What the sender of a WRITE had heard of layouts (docs/mirrors.md) when it sent it, at the least.
struct LayoutStamp {
  std::uint16_t coordinator = 0;  // index of the process that versions are of
  std::uint64_t version = 0;      // 0: nothing is said
  bool operator==(const LayoutStamp&) const = default;
};

// Who sent an internal or forwarded call. Layout: docs/formats/auth-slice.md. It proves nothing by itself: it
// counts in calls that came over a session (rpc/session.h) or from the receiver's own process.
struct SliceVerifier {
  std::uint32_t sender = 0;  // index of the sending process in the ensemble's configuration
  Generation generation;     // of the sender's routing tables
  Endpoint client;           // for a forwarded call: the client; else zero
  Xid client_xid;            // for a forwarded call: the client's xid; else zero
  std::uint8_t relays = 0;   // how many servers have passed the call on because it was not theirs
  bool datagram = false;     // the client asked by datagram: the whole reply must fit one
  LayoutStamp layout{};      // of a forwarded WRITE of a file with a layout
  CallSecurity security{};   // of a forwarded call: how the client's came
  // The call is internal; client and xid say which of its sender's it is, whatever connection it comes by.
  bool own = false;
};
// Appends flavor, length and body.
void encode_slice_verifier(XdrWriter& out, const SliceVerifier& verifier);
// kInvalid where the body is malformed.
Result<SliceVerifier> decode_slice_verifier(ByteView body);

// Which call of its host a proxy on that host (docs/client-proxy.md) passes on: servers then know it again
// whatever connection it comes by. It says nothing that the host could not say by calling itself, and counts
// from anybody. Layout: docs/formats/auth-slice.md.
struct ClientVerifier {
  std::uint16_t port = 0;  // of the connection that the call came by
  Xid xid;                 // of the call as it came
};
inline constexpr std::size_t kClientVerifierSize = 8;  // of the body
void encode_client_verifier(XdrWriter& out, const ClientVerifier& verifier);
// kInvalid where the body is malformed.
Result<ClientVerifier> decode_client_verifier(ByteView body);
// Makes `client`, the peer, and `xid`, the message's, those of the call that is passed on. False where it
// claims a reserved port and comes from another.
bool apply(const ClientVerifier& verifier, Endpoint& client, Xid& xid);

}  // namespace slice::rpc

#endif  // SLICE_RPC_AUTH_H
