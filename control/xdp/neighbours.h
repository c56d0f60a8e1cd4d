// Neighbours: how to reach a host at the link: interface and hardware addresses, from the kernel's routes and
// neighbour table (rtnetlink). The XDP program needs them, since it sends frames itself.
#ifndef SLICE_CONTROL_XDP_NEIGHBOURS_H
#define SLICE_CONTROL_XDP_NEIGHBOURS_H

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "proxy/tables/tables.h"

namespace slice::proxy {

struct NextHop {
  std::uint32_t ifindex = 0;
  std::array<std::uint8_t, 6> address{};  // of the next hop
  std::array<std::uint8_t, 6> source{};   // of the interface
};

class Neighbours {
 public:
  Neighbours();
  ~Neighbours();
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  // The way to `address`. Nothing where it is this host, has no route, or its hardware
  // address is not known yet: then the kernel has been asked to find it out, and the next call may know.
  // Blocks for microseconds: the kernel answers at once.
  std::optional<NextHop> resolve(IpAddress address);
  // Brings the way to every server in `tables` up to date; one without a known way is left to the stack. What
  // the XDP program doubts of a server (slice_server.doubts) counts from the first call on, for all servers
  // behind an interface that one of them shares with clients, and for good; that replies come from another
  // hardware address, until the way is another. New doubts are logged.
  void refresh(const Tables& tables);
  // The doubts of the last refresh, for an operator: "clients and servers share: eth0; replies come from
  // another address than the way's: server 3", or nothing.
  const std::string& doubts() const { return doubts_; }

 private:
  struct Route {
    std::uint32_t ifindex = 0;
    IpAddress gateway;  // of the same family; or none
  };
  std::optional<Route> route(IpAddress address);
  void refresh(slice_server& server, IpAddress address);
  void review_doubts(const Tables& tables);
  // False: not known. Asks for it where it is unknown or may be out of date.
  bool neighbour(std::uint32_t ifindex, IpAddress address, std::array<std::uint8_t, 6>& out);
  void probe(std::uint32_t ifindex, IpAddress address);
  bool interface_address(std::uint32_t ifindex, std::array<std::uint8_t, 6>& out);
  // Sends one request and reads its one answer.
  std::size_t ask(void* message, std::size_t size, std::uint8_t* answer, std::size_t room);

  int fd_ = -1;
  std::uint32_t sequence_ = 0;
  bool began_ = false;
  std::set<std::uint32_t> shared_;  // interfaces
  std::string doubts_;
};

}  // namespace slice::proxy

#endif  // SLICE_CONTROL_XDP_NEIGHBOURS_H
