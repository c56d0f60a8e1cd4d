// PORTMAP version 2 (RFC 1833 section 3).
#ifndef SLICE_WIRE_PORTMAP2_H
#define SLICE_WIRE_PORTMAP2_H

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/bytes.h"
#include "rpc/xdr.h"

namespace slice::portmap2 {

inline constexpr std::uint32_t kProgram = 100000;
inline constexpr std::uint32_t kVersion = 2;
inline constexpr std::uint32_t kTcp = 6, kUdp = 17;  // Mapping::protocol
inline constexpr std::size_t kMaxMappings = 1024;    // of DUMP: more are left out
inline constexpr std::size_t kMaxCall = 8192;        // bytes of CALLIT's arguments

enum class Procedure : std::uint32_t {
  kNull = 0,
  kSet = 1,
  kUnset = 2,
  kGetport = 3,
  kDump = 4,
  kCallit = 5
};
std::string_view procedure_name(std::uint32_t procedure);  // "GETPORT"; "?" above 5

// Arguments of SET, UNSET and GETPORT (which ignores the port), and an entry of DUMP.
struct Mapping {
  std::uint32_t program = 0, version = 0, protocol = 0, port = 0;
  auto operator<=>(const Mapping&) const = default;
};
bool decode(ByteView bytes, Mapping& out);
void encode(rpc::XdrWriter& out, const Mapping& mapping);

// Result of GETPORT: 0 where the program is not known.
bool decode_port(ByteView bytes, std::uint32_t& port);
void encode_port(rpc::XdrWriter& out, std::uint32_t port);
// Result of SET and UNSET.
bool decode_done(ByteView bytes, bool& done);
void encode_done(rpc::XdrWriter& out, bool done);

// Result of DUMP.
bool decode(ByteView bytes, std::vector<Mapping>& out);
void encode(rpc::XdrWriter& out, const std::vector<Mapping>& mappings);

struct CallitArgs {
  std::uint32_t program = 0, version = 0, procedure = 0;
  ByteView arguments;
};
bool decode(ByteView bytes, CallitArgs& out);
void encode(rpc::XdrWriter& out, const CallitArgs& args);

}  // namespace slice::portmap2

#endif  // SLICE_WIRE_PORTMAP2_H
