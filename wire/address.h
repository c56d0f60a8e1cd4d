// HOLD_ADDRESS, a procedure of the manager program (wire/manager.h): which of several proxies has the virtual
// address (docs/proxy.md, "Several proxies").
#ifndef SLICE_WIRE_ADDRESS_H
#define SLICE_WIRE_ADDRESS_H

#include <cstdint>
#include <string>
#include <vector>

#include "wire/manager.h"

namespace slice::wire {

inline constexpr std::uint32_t kNoServer = 0xffffffff;

// A client's TCP connection to the address.
struct AddressPeer {
  IpAddress address;               // the client's
  std::uint16_t port = 0, at = 0;  // the client's, and that of the virtual address
  auto operator<=>(const AddressPeer&) const = default;
};
inline constexpr std::size_t kMaxAddressPeers = 16384;  // of more the first ones
// Equal for equal peers, and else hardly ever; never 0.
std::uint64_t digest(const std::vector<AddressPeer>& peers);

// A proxy asks several times within the patience, and at once when it lets go of the address. Questions may
// come in another order, or twice, where another manager begins to lead: an earlier one counts for nothing.
struct HoldAddressArgs {
  std::uint32_t server = kNoServer;   // who asks; kNoServer: an operator, who takes no part
  bool ready = false;                 // it could serve: listening, with tables, and its interface has a link
  bool holds = false;                 // it has the address, or is not through yet with letting go of it
  std::uint64_t run = 0, number = 0;  // of the proxy's process; of the question, from 1
  std::uint32_t wanted = kNoServer;   // an operator's: the proxy which is to have it; kNoServer: only looks
  // Of the holder: its clients' connections, which its successor wakes, since a client whose call was
  // received and never answered sends nothing by itself. None where the manager has them already.
  std::vector<AddressPeer> peers = {};
};

// A proxy that asks.
struct AddressAsker {
  std::uint32_t server = kNoServer;
  bool ready = false, holds = false;
  std::uint64_t age_ms = 0;  // since it asked last
  bool operator==(const AddressAsker&) const = default;
};

struct HoldAddressResult {
  // False: the manager has not been there for long enough to know. Whoever has the address keeps it.
  bool known = false;
  std::uint32_t holder = kNoServer;  // who is to have it; kNoServer: nobody could
  std::uint32_t patience_ms = 0;     // so long it stays the holder without being heard of
  std::vector<AddressAsker> askers;  // for operators: those heard of within the last minute, by number
  std::uint64_t peers_digest = 0;    // of those that the manager has of the one who asks; 0: none
  std::vector<AddressPeer> peers;    // for who becomes the holder: its predecessor's
  std::string refused;               // why `wanted` is not to have it; at most 255 bytes; empty: it is
};

void encode(rpc::XdrWriter& out, const HoldAddressArgs& args);
bool decode(ByteView bytes, HoldAddressArgs& out);
void encode(rpc::XdrWriter& out, const HoldAddressResult& result);
bool decode(ByteView bytes, HoldAddressResult& out);

}  // namespace slice::wire

#endif  // SLICE_WIRE_ADDRESS_H
