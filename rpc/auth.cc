#include "rpc/auth.h"

#include <algorithm>

namespace slice::rpc {
namespace {

constexpr std::size_t kBodySize = 36, kBodySizeOfV6 = 52;                      // of the verifier
constexpr std::uint32_t kDatagram = 1, kTls = 2, kCertificate = 4, kOwn = 32;  // flags
constexpr unsigned kFlavorShift = 3, kFlavorMask = 3;                          // of the flags, the flavor

std::uint32_t flags_of(CallSecurity security) {
  const std::uint32_t flavor = static_cast<std::uint32_t>(security.flavor) << kFlavorShift;
  switch (security.transport) {
    case TransportSecurity::kMutualTls:
      return flavor | kTls | kCertificate;
    case TransportSecurity::kTls:
      return flavor | kTls;
    case TransportSecurity::kNone:
      break;
  }
  return flavor;
}

CallSecurity security_of(std::uint32_t flags) {
  CallSecurity out{.flavor = static_cast<SecurityFlavor>(flags >> kFlavorShift & kFlavorMask)};
  if ((flags & kTls) != 0)
    out.transport = (flags & kCertificate) != 0 ? TransportSecurity::kMutualTls : TransportSecurity::kTls;
  return out;
}

}  // namespace

Result<AuthSys> decode_auth_sys(ByteView body, std::size_t most_groups) {
  XdrReader in(body);
  AuthSys out;
  out.stamp = in.u32();
  out.machine_name = std::string(in.text(kMaxMachineName));
  out.uid = in.u32();
  out.gid = in.u32();
  std::uint32_t groups = in.u32();
  if (groups > most_groups) return fail(Errc::kInvalid, "AUTH_SYS credential with {} groups", groups);
  for (std::uint32_t i = 0; i < groups; ++i) out.groups.push_back(in.u32());
  if (!in.complete()) return fail(Errc::kInvalid, "malformed AUTH_SYS credential of {} bytes", body.size());
  return out;
}

void encode_auth_sys(XdrWriter& out, const AuthSys& credential) {
  out.u32(kAuthSys);
  std::size_t length_at = out.size();
  out.u32(0);
  out.u32(credential.stamp);
  out.text(std::string_view(credential.machine_name).substr(0, kMaxMachineName));
  out.u32(credential.uid);
  out.u32(credential.gid);
  const std::size_t room = (kMaxAuthBody - (out.size() - length_at)) / 4;
  std::size_t groups = std::min(credential.groups.size(), room);
  out.u32(static_cast<std::uint32_t>(groups));
  for (std::size_t i = 0; i < groups; ++i) out.u32(credential.groups[i]);
  out.patch_u32(length_at, static_cast<std::uint32_t>(out.size() - length_at - 4));
}

void encode_slice_verifier(XdrWriter& out, const SliceVerifier& verifier) {
  out.u32(kAuthSlice);
  const IpAddress client = verifier.client.address;
  out.u32(client.is_v4() ? kBodySize : kBodySizeOfV6);
  out.u32(verifier.sender);
  out.u64(verifier.generation.value);
  out.u32(client.word());
  out.u32(verifier.client.port);
  out.u32(verifier.client_xid.value);
  const std::uint32_t flags =
      (verifier.datagram ? kDatagram : 0u) | (verifier.own ? kOwn : 0u) | flags_of(verifier.security);
  out.u32(std::uint32_t{verifier.relays} << 24 | flags << 16 | verifier.layout.coordinator);
  out.u64(verifier.layout.version);
  if (client.is_v4()) return;
  out.u64(client.high());
  out.u64(client.low());
}

Result<SliceVerifier> decode_slice_verifier(ByteView body) {
  XdrReader in(body);
  SliceVerifier out;
  out.sender = in.u32();
  out.generation = Generation{in.u64()};
  const std::uint32_t address = in.u32();
  out.client.address = address;
  std::uint32_t port = in.u32();
  out.client_xid = Xid{in.u32()};
  std::uint32_t how = in.u32();
  out.relays = static_cast<std::uint8_t>(how >> 24);
  out.datagram = (how >> 16 & kDatagram) != 0;
  out.own = (how >> 16 & kOwn) != 0;
  out.security = security_of(how >> 16);
  out.layout.coordinator = static_cast<std::uint16_t>(how);
  out.layout.version = in.u64();
  if (address == IpAddress::kNotV4) {
    const std::uint64_t high = in.u64();
    out.client.address = IpAddress::of_words(high, in.u64());
    if (out.client.address.is_v4()) in.fail();
  }
  if (!in.complete())
    return fail(Errc::kInvalid, "the ensemble's verifier, malformed, of {} bytes", body.size());
  if (port > 0xffff) return fail(Errc::kInvalid, "the ensemble's verifier with port {}", port);
  out.client.port = static_cast<std::uint16_t>(port);
  return out;
}

void encode_client_verifier(XdrWriter& out, const ClientVerifier& verifier) {
  out.u32(kAuthClient);
  out.u32(kClientVerifierSize);
  out.u32(verifier.port);
  out.u32(verifier.xid.value);
}

Result<ClientVerifier> decode_client_verifier(ByteView body) {
  XdrReader in(body);
  const std::uint32_t port = in.u32();
  const Xid xid{in.u32()};
  if (!in.complete() || port == 0 || port > 0xffff) {
    return fail(Errc::kInvalid, "a client's verifier of {} bytes with port {}", body.size(), port);
  }
  return ClientVerifier{static_cast<std::uint16_t>(port), xid};
}

bool apply(const ClientVerifier& verifier, Endpoint& client, Xid& xid) {
  if (verifier.port < kReservedPorts && client.port >= kReservedPorts) return false;
  client.port = verifier.port;
  xid = verifier.xid;
  return true;
}

}  // namespace slice::rpc
