// SHARE_CLIENTS, a procedure of the manager program (wire/manager.h): which of several proxies serve clients
// over TCP, each a part of them (docs/proxy.md, "Several proxies that serve").
#ifndef SLICE_WIRE_SHARE_H
#define SLICE_WIRE_SHARE_H

#include <array>
#include <cstdint>
#include <vector>

#include "wire/address.h"

namespace slice::wire {

// A proxy that serves a part of the clients.
struct Sharer {
  std::uint32_t server = kNoServer;
  std::array<std::uint8_t, 6> hardware{};  // of its interface towards the clients
  auto operator<=>(const Sharer&) const = default;
};
inline constexpr std::size_t kMaxSharers = 63;
// By number. None: who has the virtual address serves all.
using Sharers = std::vector<Sharer>;
bool has(const Sharers& sharers, std::uint32_t server);
// Equal for equal ones, and else hardly ever; never 0.
std::uint64_t digest(const Sharers& sharers);

// A proxy asks several times within the patience. Its questions have an order as those of HOLD_ADDRESS have.
struct ShareClientsArgs {
  std::uint32_t server = kNoServer;  // who asks; kNoServer: an operator, who takes no part
  std::uint64_t run = 0, number = 0;
  std::array<std::uint8_t, 6> hardware{};
  bool fit = false;            // it could serve a part, and send the others on to theirs
  bool serves = false;         // it is one of those who serve, as far as it has heard
  bool holds = false;          // it has the virtual address
  std::uint64_t prepared = 0;  // digest of those for whom it is ready to be one of; 0: for none
  bool heard = false;          // a manager has told this process who serve
  Sharers follows = {};        // if it has: these
  // Its clients' connections, which are woken where it dies. None where the manager has them already.
  std::vector<AddressPeer> peers = {};
};

struct ShareClientsResult {
  // False: the manager has not been there for long enough to know. All stays as it is.
  bool known = false;
  std::uint32_t patience_ms = 0;   // so long one is a sharer without being heard of
  Sharers current;                 // who serve now
  Sharers wanted;                  // who are to serve as soon as all of them are prepared for it
  std::uint64_t peers_digest = 0;  // of those that the manager has of the one who asks; 0: none
  std::vector<AddressPeer> left;   // for who has the address: connections of a sharer that is one no more
  std::uint64_t left_ns = 0;  // wall clock, when the last of them was left: once more, where it is another
};

void encode(rpc::XdrWriter& out, const ShareClientsArgs& args);
bool decode(ByteView bytes, ShareClientsArgs& out);
void encode(rpc::XdrWriter& out, const ShareClientsResult& result);
bool decode(ByteView bytes, ShareClientsResult& out);

}  // namespace slice::wire

#endif  // SLICE_WIRE_SHARE_H
