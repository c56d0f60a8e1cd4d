// ClaimSocket: who of an Ethernet has an address, as its hosts tell one another: by ARP (RFC 826, RFC 5227)
// of IPv4, by neighbour discovery (RFC 4861) of IPv6. One loop.
#ifndef SLICE_CONTROL_PROXYD_CLAIM_SOCKET_H
#define SLICE_CONTROL_PROXYD_CLAIM_SOCKET_H

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "common/ip_address.h"
#include "common/log.h"
#include "common/loop.h"
#include "common/result.h"

namespace slice::proxy {

// Of what is sent over IP: the pseudo-header's and the bytes' (RFC 9293 section 3.1, RFC 8200 section 8.1).
// As it stands in memory.
std::uint16_t transport_checksum(IpAddress from, IpAddress to, std::uint8_t protocol,
                                 std::span<const std::uint8_t> bytes);

class ClaimSocket {
 public:
  using Hardware = std::array<std::uint8_t, 6>;
  // Called on the loop with the hardware address of another host that says that it has the address.
  using Claimed = std::function<void(const std::string& by)>;
  // It needs CAP_NET_RAW: kIo without.
  static Result<std::unique_ptr<ClaimSocket>> open(Loop& loop, IpAddress address, Claimed claimed);
  ~ClaimSocket();
  ClaimSocket(const ClaimSocket&) = delete;
  ClaimSocket& operator=(const ClaimSocket&) = delete;

  // Where it listens and sends from now on. False with errno.
  bool follow(unsigned interface);
  // The interface's own.
  void set_hardware(const Hardware& hardware) { hardware_ = hardware; }
  // Tells all that this host has the address; asks who has it, as one who does not.
  void announce();
  void probe();

 private:
  ClaimSocket(Loop& loop, IpAddress address, Claimed claimed, int socket);
  void send_arp(std::uint32_t sender);
  void send_neighbour(bool asks);
  void send(std::span<const std::uint8_t> frame);
  void read();

  Loop& loop_;
  const IpAddress address_;
  const Claimed claimed_;
  const int socket_;
  unsigned interface_ = 0;
  Hardware hardware_{};
  LogLimiter log_{1};
};

}  // namespace slice::proxy

#endif  // SLICE_CONTROL_PROXYD_CLAIM_SOCKET_H
