// RPCBIND versions 3 and 4 (RFC 1833 section 2): what PORTMAP (wire/portmap2.h) says, for addresses of any
// family.
#ifndef SLICE_WIRE_RPCBIND4_H
#define SLICE_WIRE_RPCBIND4_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/bytes.h"
#include "rpc/endpoint.h"
#include "rpc/xdr.h"

namespace slice::rpcbind4 {

inline constexpr std::uint32_t kProgram = 100000;
inline constexpr std::uint32_t kVersion = 4, kOlderVersion = 3;
inline constexpr std::size_t kMaxText = 255;            // of each text of a registration
inline constexpr std::size_t kMaxRegistrations = 1024;  // of DUMP: more are left out

// Those of version 3 have the same numbers, and end with UADDR2TADDR and its reverse.
enum class Procedure : std::uint32_t {
  kNull = 0,
  kSet = 1,
  kUnset = 2,
  kGetaddr = 3,
  kDump = 4,
  kGetversaddr = 9,
};

// "tcp", "udp6".
std::string_view netid(bool tcp, bool v4);
struct Transport {
  bool tcp = true, v4 = true;
  bool operator==(const Transport&) const = default;
};
// Nothing where it is none of IP's.
std::optional<Transport> transport_of(std::string_view netid);

// "10.77.0.1.8.1", "fd77::1.8.1": the port's two bytes behind the address (RFC 5665 section 5.2.3).
std::string universal_address(rpc::Endpoint endpoint);
std::optional<rpc::Endpoint> parse_universal_address(std::string_view text);

// Arguments of SET, UNSET, GETADDR and GETVERSADDR, and an entry of DUMP.
struct Registration {
  std::uint32_t program = 0, version = 0;
  std::string netid, address, owner;  // the second a universal one
  auto operator<=>(const Registration&) const = default;
};
bool decode(ByteView bytes, Registration& out);
void encode(rpc::XdrWriter& out, const Registration& registration);

// Result of GETADDR and GETVERSADDR: empty where the program is not known. That of SET and UNSET is
// PORTMAP's.
bool decode_address(ByteView bytes, std::string& address);
void encode_address(rpc::XdrWriter& out, std::string_view address);
// Result of DUMP.
bool decode(ByteView bytes, std::vector<Registration>& out);
void encode(rpc::XdrWriter& out, const std::vector<Registration>& registrations);

}  // namespace slice::rpcbind4

#endif  // SLICE_WIRE_RPCBIND4_H
