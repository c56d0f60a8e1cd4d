#include "control/xdp/neighbours.h"

#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "common/bytes.h"
#include "common/log.h"

namespace slice::proxy {
namespace {

std::uint8_t family_of(IpAddress address) {
  return address.is_v4() ? AF_INET : AF_INET6;
}

template <class Body>
struct Message {
  nlmsghdr header{};
  Body body{};
  std::uint8_t attributes[64]{};

  Message(std::uint16_t type, std::uint16_t flags) {
    header.nlmsg_type = type;
    header.nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
    header.nlmsg_len = NLMSG_LENGTH(sizeof(Body));
  }
  void add(std::uint16_t type, IpAddress address) {
    const AddressBytes bytes(address);
    auto* at =
        reinterpret_cast<rtattr*>(reinterpret_cast<std::uint8_t*>(this) + NLMSG_ALIGN(header.nlmsg_len));
    at->rta_type = type;
    at->rta_len = static_cast<std::uint16_t>(RTA_LENGTH(bytes.size()));
    std::memcpy(RTA_DATA(at), bytes.data(), bytes.size());
    header.nlmsg_len = static_cast<std::uint32_t>(NLMSG_ALIGN(header.nlmsg_len) + RTA_LENGTH(bytes.size()));
  }
};

// Calls `seen(type, data, size)` for each attribute of an answer of type `expected`; false for another
// answer.
template <class Body, class Seen>
bool each_attribute(std::uint8_t* answer, std::size_t size, std::uint16_t expected, Body& body, Seen seen) {
  auto* header = reinterpret_cast<nlmsghdr*>(answer);
  if (!NLMSG_OK(header, size) || header->nlmsg_type != expected) return false;
  if (header->nlmsg_len < NLMSG_LENGTH(sizeof(Body))) return false;
  std::memcpy(&body, NLMSG_DATA(header), sizeof body);
  auto* at =
      reinterpret_cast<rtattr*>(static_cast<std::uint8_t*>(NLMSG_DATA(header)) + NLMSG_ALIGN(sizeof(Body)));
  auto left = static_cast<int>(header->nlmsg_len - NLMSG_LENGTH(sizeof(Body)));
  for (; RTA_OK(at, left); at = RTA_NEXT(at, left)) {
    seen(at->rta_type, static_cast<const std::uint8_t*>(RTA_DATA(at)),
         static_cast<std::size_t>(RTA_PAYLOAD(at)));
  }
  return true;
}

// A server is in one of the two tables, and has no port in the other.
template <class Seen>
void for_each_entry(const Tables& tables, Seen seen) {
  for (std::uint32_t i = 1; i < SLICE_MAX_SERVERS; ++i) {
    seen(i, tables.servers[i]);
    seen(i, tables.servers6[i].server);
  }
}

void set_doubts(slice_server& server, std::uint32_t doubts) {
  *static_cast<volatile std::uint32_t*>(&server.doubts) = doubts;
}

}  // namespace

Neighbours::Neighbours() : fd_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)) {
  timeval patience{0, 100'000};
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

Neighbours::~Neighbours() {
  if (fd_ >= 0) ::close(fd_);
}

std::size_t Neighbours::ask(void* message, std::size_t size, std::uint8_t* answer, std::size_t room) {
  auto* header = static_cast<nlmsghdr*>(message);
  header->nlmsg_seq = ++sequence_;
  if (::send(fd_, message, size, 0) < 0) return 0;
  for (;;) {
    ssize_t n = ::recv(fd_, answer, room, 0);
    if (n < static_cast<ssize_t>(sizeof(nlmsghdr))) return 0;
    if (reinterpret_cast<nlmsghdr*>(answer)->nlmsg_seq == sequence_) return static_cast<std::size_t>(n);
  }
}

std::optional<Neighbours::Route> Neighbours::route(IpAddress address) {
  Message<rtmsg> request(RTM_GETROUTE, 0);
  request.body.rtm_family = family_of(address);
  const std::size_t whole = AddressBytes(address).size();
  request.body.rtm_dst_len = static_cast<std::uint8_t>(8 * whole);
  request.add(RTA_DST, address);
  alignas(nlmsghdr) std::uint8_t answer[4096];
  std::size_t n = ask(&request, request.header.nlmsg_len, answer, sizeof answer);
  Route found;
  rtmsg body{};
  bool ok = n > 0 && each_attribute(answer, n, RTM_NEWROUTE, body,
                                    [&](unsigned type, const std::uint8_t* data, std::size_t size) {
                                      if (type == RTA_OIF && size == 4) std::memcpy(&found.ifindex, data, 4);
                                      if (type == RTA_GATEWAY && size == whole)
                                        found.gateway = IpAddress::of_bytes(data, size);
                                    });
  if (!ok || body.rtm_type != RTN_UNICAST || found.ifindex == 0) return std::nullopt;
  return found;
}

bool Neighbours::neighbour(std::uint32_t ifindex, IpAddress address, std::array<std::uint8_t, 6>& out) {
  Message<ndmsg> request(RTM_GETNEIGH, 0);
  request.body.ndm_family = family_of(address);
  request.body.ndm_ifindex = static_cast<int>(ifindex);
  request.add(NDA_DST, address);
  alignas(nlmsghdr) std::uint8_t answer[4096];
  std::size_t n = ask(&request, request.header.nlmsg_len, answer, sizeof answer);
  ndmsg body{};
  bool has_address = false;
  bool ok = n > 0 && each_attribute(answer, n, RTM_NEWNEIGH, body,
                                    [&](unsigned type, const std::uint8_t* data, std::size_t size) {
                                      if (type != NDA_LLADDR || size != 6) return;
                                      std::memcpy(out.data(), data, 6);
                                      has_address = true;
                                    });
  constexpr unsigned kSure = NUD_REACHABLE | NUD_PERMANENT | NUD_NOARP;
  constexpr unsigned kUsable = kSure | NUD_STALE | NUD_DELAY | NUD_PROBE;
  // Frames of the XDP program do not count as traffic: without being asked, the kernel would forget.
  if (!ok || (body.ndm_state & kSure) == 0) probe(ifindex, address);
  return ok && has_address && (body.ndm_state & kUsable) != 0;
}

void Neighbours::probe(std::uint32_t ifindex, IpAddress address) {
  Message<ndmsg> request(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK);
  request.body.ndm_family = family_of(address);
  request.body.ndm_ifindex = static_cast<int>(ifindex);
  request.body.ndm_flags = NTF_USE;  // as if a packet had to go there
  request.add(NDA_DST, address);
  alignas(nlmsghdr) std::uint8_t answer[4096];
  ask(&request, request.header.nlmsg_len, answer, sizeof answer);
}

bool Neighbours::interface_address(std::uint32_t ifindex, std::array<std::uint8_t, 6>& out) {
  ifreq request{};
  if (::if_indextoname(ifindex, request.ifr_name) == nullptr) return false;
  int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  bool ok = fd >= 0 && ::ioctl(fd, SIOCGIFHWADDR, &request) == 0;
  if (fd >= 0) ::close(fd);
  if (ok) std::memcpy(out.data(), request.ifr_hwaddr.sa_data, 6);
  return ok;
}

std::optional<NextHop> Neighbours::resolve(IpAddress address) {
  std::optional<Route> way = route(address);
  if (!way) return std::nullopt;
  NextHop hop;
  hop.ifindex = way->ifindex;
  if (!neighbour(way->ifindex, way->gateway.none() ? address : way->gateway, hop.address))
    return std::nullopt;
  if (!interface_address(way->ifindex, hop.source)) return std::nullopt;
  return hop;
}

void Neighbours::refresh(slice_server& server, IpAddress address) {
  auto hop = resolve(address);
  auto* ifindex = reinterpret_cast<volatile std::uint32_t*>(&server.ifindex);
  if (!hop) {
    *ifindex = 0;
    return;
  }
  if (std::memcmp(server.next_hop_mac, hop->address.data(), 6) != 0 ||
      std::memcmp(server.source_mac, hop->source.data(), 6) != 0 || server.ifindex != hop->ifindex) {
    *ifindex = 0;  // half a change must not be used
    std::memcpy(server.next_hop_mac, hop->address.data(), 6);
    std::memcpy(server.source_mac, hop->source.data(), 6);
    set_doubts(server, 0);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
  }
  *ifindex = hop->ifindex;
}

void Neighbours::refresh(const Tables& tables) {
  for_each_entry(tables, [&](std::uint32_t i, slice_server& server) {
    if (!began_) set_doubts(server, 0);
    if (server.port != 0) {
      refresh(server, tables.endpoint_at(i).value_or(rpc::Endpoint{}).address);
    } else if (server.ifindex != 0) {  // it was removed
      *reinterpret_cast<volatile std::uint32_t*>(&server.ifindex) = 0;
      set_doubts(server, 0);
    }
  });
  began_ = true;
  review_doubts(tables);
}

void Neighbours::review_doubts(const Tables& tables) {
  for_each_entry(tables, [&](std::uint32_t, const slice_server& server) {
    if (server.ifindex != 0 && (slice_load_relaxed32(&server.doubts) & SLICE_SERVER_SHARED) != 0)
      shared_.insert(server.ifindex);
  });
  std::string astray, shared;
  for_each_entry(tables, [&](std::uint32_t i, slice_server& server) {
    std::uint32_t doubts = slice_load_relaxed32(&server.doubts);
    if (shared_.contains(server.ifindex) && (doubts & SLICE_SERVER_SHARED) == 0)
      set_doubts(server, doubts | SLICE_SERVER_SHARED);
    if ((doubts & SLICE_SERVER_ASTRAY) != 0) astray += fmt::format(" {}", i);
  });
  for (std::uint32_t ifindex : shared_) {
    char name[IF_NAMESIZE];
    if (::if_indextoname(ifindex, name) != nullptr) shared += fmt::format(" {}", name);
  }
  std::string doubts = shared.empty() ? "" : "clients and servers share:" + shared;
  if (!astray.empty()) {
    doubts +=
        (doubts.empty() ? "" : "; ") + ("replies come from another address than the way's: server" + astray);
  }
  if (doubts != doubts_ && !doubts.empty()) log_warning("XDP learns nothing over UDP: {}", doubts);
  doubts_ = std::move(doubts);
}

}  // namespace slice::proxy
