// RPCSEC_GSS version 1 (RFC 2203), by which users show tickets of Kerberos: its messages as they lie in calls
// and replies. What makes and checks the tokens in them is whose contexts they are (proxy/gss/).
#ifndef SLICE_RPC_GSS_H
#define SLICE_RPC_GSS_H

#include <cstdint>
#include <optional>

#include "common/bytes.h"
#include "common/config.h"
#include "rpc/xdr.h"

namespace slice::rpc {

inline constexpr std::uint32_t kGssVersion = 1;
inline constexpr std::uint32_t kGssMaxSequence =
    0x80000000;                                        // section 5.3.3.1: behind it a context is used up
inline constexpr std::size_t kMaxGssHandle = 16;       // of those that are made here
inline constexpr std::size_t kMaxGssToken = 64 << 10;  // of Kerberos with all that Active Directory adds

enum class GssProcedure : std::uint32_t { kData = 0, kInit = 1, kContinueInit = 2, kDestroy = 3 };
enum class GssService : std::uint32_t { kNone = 1, kIntegrity = 2, kPrivacy = 3 };
SecurityFlavor flavor_of(GssService service);
// As MOUNT tells them (RFC 2623 section 2.3.1); of kSys that of AUTH_SYS.
std::uint32_t pseudo_flavor(SecurityFlavor flavor);

// The body of a call's credential; the handle points into it.
struct GssCredential {
  GssProcedure procedure = GssProcedure::kData;
  std::uint32_t sequence = 0;
  GssService service = GssService::kNone;
  ByteView handle;
};
// Nothing where it is malformed, or of another version.
std::optional<GssCredential> decode_gss_credential(ByteView body);

// Results of INIT and CONTINUE_INIT (section 5.2.3.1).
struct GssInitResult {
  ByteView handle;
  std::uint32_t major = 0, minor = 0;  // of GSS-API
  std::uint32_t window = 0;            // how many calls may be under way
  ByteView token;
};
void encode(XdrWriter& out, const GssInitResult& result);

// Arguments or results that cannot be changed (section 5.3.2.2): the sequence number and the bytes proper,
// and of both a checksum.
struct GssIntegrity {
  ByteView covered, checksum;
};
std::optional<GssIntegrity> decode_gss_integrity(ByteView bytes);
// What is covered, or was encrypted, is the call's with this sequence number: the bytes proper.
std::optional<ByteView> gss_body(ByteView covered, std::uint32_t sequence);
// Those that cannot be read, either (section 5.3.2.3): nothing where there is more than the token.
std::optional<ByteView> decode_gss_privacy(ByteView bytes);

}  // namespace slice::rpc

#endif  // SLICE_RPC_GSS_H
