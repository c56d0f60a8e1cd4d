#include "rpc/auth.h"

#include <algorithm>

#include "rpc/siphash.h"

namespace slice::rpc {
namespace {

constexpr std::size_t kMacSize = 16;
constexpr std::size_t kFieldsSize = 48;  // of the verifier's body, before the MAC
constexpr std::uint32_t kDatagram = 1;   // flag

std::array<std::uint8_t, kMacSize> mac_of(ByteView fields, const SealedCall& call, const EnsembleKey& key) {
  std::uint8_t head[20];
  store_be(head, call.program);
  store_be(head + 4, call.version);
  store_be(head + 8, call.procedure);
  store_be(head + 12, call.credential_flavor);
  store_be(head + 16, static_cast<std::uint32_t>(call.credential.size()));
  SipHash128 hash(key);
  hash.update(fields);
  hash.update(head);
  hash.update(call.credential);
  hash.update(call.arguments.first(std::min(call.arguments.size(), kSealedArguments)));
  return hash.finish();
}

// In constant time: how far a forged MAC fits must not show.
bool same(ByteView a, ByteView b) {
  std::uint8_t difference = 0;
  for (std::size_t i = 0; i < kMacSize; ++i) difference |= a[i] ^ b[i];
  return difference == 0;
}

}  // namespace

Result<AuthSys> decode_auth_sys(ByteView body) {
  XdrReader in(body);
  AuthSys out;
  out.stamp = in.u32();
  out.machine_name = std::string(in.text(kMaxMachineName));
  out.uid = in.u32();
  out.gid = in.u32();
  std::uint32_t groups = in.u32();
  if (groups > kMaxAuthSysGroups) return fail(Errc::kInvalid, "AUTH_SYS credential with {} groups", groups);
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
  std::size_t groups = std::min(credential.groups.size(), kMaxAuthSysGroups);
  out.u32(static_cast<std::uint32_t>(groups));
  for (std::size_t i = 0; i < groups; ++i) out.u32(credential.groups[i]);
  out.patch_u32(length_at, static_cast<std::uint32_t>(out.size() - length_at - 4));
}

void encode_slice_verifier(XdrWriter& out, const SliceVerifier& verifier, const SealedCall& call,
                           const EnsembleKey& key) {
  out.u32(kAuthSlice);
  out.u32(kFieldsSize + kMacSize);
  std::size_t fields_at = out.size();
  out.u32(verifier.sender);
  out.u64(verifier.generation.value);
  out.u32(verifier.client.address);
  out.u32(verifier.client.port);
  out.u32(verifier.client_xid.value);
  out.u64(verifier.nonce);
  out.u32(std::uint32_t{verifier.relays} << 24 | (verifier.datagram ? kDatagram : 0u) << 16);
  out.u32(0);  // reserved
  out.u64(verifier.layout_version);
  out.fixed(mac_of(out.view().subspan(fields_at, kFieldsSize), call, key));
}

Result<SliceVerifier> open_slice_verifier(ByteView body, const SealedCall& call, const EnsembleKey& key) {
  if (body.size() != kFieldsSize + kMacSize) {
    return fail(Errc::kInvalid, "sealed verifier of {} bytes instead of {}", body.size(),
                kFieldsSize + kMacSize);
  }
  if (!same(mac_of(body.first(kFieldsSize), call, key), body.subspan(kFieldsSize))) {
    return fail(Errc::kDenied, "the seal of the call does not fit the ensemble's key");
  }
  XdrReader in(body);
  SliceVerifier out;
  out.sender = in.u32();
  out.generation = Generation{in.u64()};
  out.client.address = in.u32();
  std::uint32_t port = in.u32();
  out.client_xid = Xid{in.u32()};
  out.nonce = in.u64();
  std::uint32_t how = in.u32();
  out.relays = static_cast<std::uint8_t>(how >> 24);
  out.datagram = (how >> 16 & kDatagram) != 0;
  in.u32();  // reserved
  out.layout_version = in.u64();
  if (port > 0xffff) return fail(Errc::kInvalid, "sealed verifier with port {}", port);
  out.client.port = static_cast<std::uint16_t>(port);
  return out;
}

}  // namespace slice::rpc
