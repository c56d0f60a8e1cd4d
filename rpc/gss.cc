#include "rpc/gss.h"

#include "rpc/auth.h"

namespace slice::rpc {
namespace {

constexpr std::uint32_t kPseudoKrb5 = 390003;     // and krb5i, krb5p behind it
constexpr std::size_t kMaxHandleOfAnybody = 400;  // what a credential has room for
constexpr std::size_t kMaxWrapped = 16u << 20;    // no record is as long
constexpr std::size_t kMaxChecksum = 1024;

}  // namespace

SecurityFlavor flavor_of(GssService service) {
  switch (service) {
    case GssService::kPrivacy:
      return SecurityFlavor::kKrb5p;
    case GssService::kIntegrity:
      return SecurityFlavor::kKrb5i;
    case GssService::kNone:
      break;
  }
  return SecurityFlavor::kKrb5;
}

std::uint32_t pseudo_flavor(SecurityFlavor flavor) {
  if (flavor == SecurityFlavor::kSys) return kAuthSys;
  return kPseudoKrb5 + static_cast<std::uint32_t>(flavor) - static_cast<std::uint32_t>(SecurityFlavor::kKrb5);
}

std::optional<GssCredential> decode_gss_credential(ByteView body) {
  XdrReader in(body);
  const std::uint32_t version = in.u32(), procedure = in.u32();
  GssCredential out;
  out.sequence = in.u32();
  const std::uint32_t service = in.u32();
  out.handle = in.opaque(kMaxHandleOfAnybody);
  if (!in.complete() || version != kGssVersion || procedure > 3 || service < 1 || service > 3)
    return std::nullopt;
  out.procedure = static_cast<GssProcedure>(procedure);
  out.service = static_cast<GssService>(service);
  return out;
}

void encode(XdrWriter& out, const GssInitResult& result) {
  out.opaque(result.handle);
  out.u32(result.major);
  out.u32(result.minor);
  out.u32(result.window);
  out.opaque(result.token);
}

std::optional<GssIntegrity> decode_gss_integrity(ByteView bytes) {
  XdrReader in(bytes);
  GssIntegrity out;
  out.covered = in.opaque(kMaxWrapped);
  out.checksum = in.opaque(kMaxChecksum);
  if (!in.complete()) return std::nullopt;
  return out;
}

std::optional<ByteView> gss_body(ByteView covered, std::uint32_t sequence) {
  XdrReader in(covered);
  if (in.u32() != sequence || !in.ok()) return std::nullopt;
  return in.rest();
}

std::optional<ByteView> decode_gss_privacy(ByteView bytes) {
  XdrReader in(bytes);
  const ByteView token = in.opaque(kMaxWrapped);
  if (!in.complete()) return std::nullopt;
  return token;
}

}  // namespace slice::rpc
