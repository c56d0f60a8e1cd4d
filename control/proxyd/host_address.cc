#include "control/proxyd/host_address.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "common/bytes.h"
#include "control/xdp/reverse_path.h"
#include "rpc/bound_socket.h"

namespace slice::proxy {
namespace {

constexpr std::size_t kAnswer = 32 << 10;
constexpr std::uint8_t kTtl = 64;

template <class Body>
struct Message {
  nlmsghdr header{};
  Body body{};
  alignas(4) std::uint8_t attributes[96]{};

  Message(std::uint16_t type, unsigned flags) {
    header.nlmsg_type = type;
    header.nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
    header.nlmsg_len = NLMSG_LENGTH(sizeof(Body));
  }
  void add(std::uint16_t type, const void* data, std::size_t size) {
    auto* at =
        reinterpret_cast<rtattr*>(reinterpret_cast<std::uint8_t*>(this) + NLMSG_ALIGN(header.nlmsg_len));
    at->rta_type = type;
    at->rta_len = static_cast<std::uint16_t>(RTA_LENGTH(size));
    std::memcpy(RTA_DATA(at), data, size);
    header.nlmsg_len = static_cast<std::uint32_t>(NLMSG_ALIGN(header.nlmsg_len) + RTA_SPACE(size));
  }
};

int open_netlink(int protocol) {
  int fd = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
  timeval patience{.tv_sec = 0, .tv_usec = 200'000};
  if (fd >= 0) ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return fd;
}

// Sends the request, and calls `seen(header)` for each message of its answer up to the last. 0, or an errno
// that the kernel answered or the socket had.
template <class Seen>
int ask_kernel(int fd, nlmsghdr& request, Seen seen) {
  static std::uint32_t sequence = 0;
  request.nlmsg_seq = ++sequence;
  if (::send(fd, &request, request.nlmsg_len, 0) < 0) return errno;
  alignas(nlmsghdr) static thread_local std::uint8_t answer[kAnswer];
  while (true) {
    const ssize_t n = ::recv(fd, answer, sizeof answer, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    auto left = static_cast<std::size_t>(n);
    for (auto* header = reinterpret_cast<nlmsghdr*>(answer); NLMSG_OK(header, left);
         header = NLMSG_NEXT(header, left)) {
      if (header->nlmsg_seq != request.nlmsg_seq) continue;  // of one that was given up
      if (header->nlmsg_type == NLMSG_DONE) return 0;
      if (header->nlmsg_type == NLMSG_ERROR) {
        if (header->nlmsg_len < NLMSG_LENGTH(sizeof(nlmsgerr))) return EBADMSG;
        return -static_cast<const nlmsgerr*>(NLMSG_DATA(header))->error;
      }
      seen(*header);
    }
  }
}

ifreq request_of(const std::string& interface) {
  ifreq request{};
  std::memcpy(request.ifr_name, interface.data(), std::min<std::size_t>(interface.size(), IFNAMSIZ - 1));
  return request;
}

IpAddress address_of(int family, const void* bytes) {
  return IpAddress::of_bytes(bytes, family == AF_INET ? AddressBytes::kV4 : sizeof(in6_addr));
}

wire::AddressPeer peer_of(int family, const inet_diag_sockid& id) {
  return {address_of(family, id.idiag_dst), ntohs(id.idiag_dport), ntohs(id.idiag_sport)};
}

}  // namespace

HostAddress::HostAddress(IpAddress address, std::string interface)
    : address_(address),
      family_(address.is_v4() ? AF_INET : AF_INET6),
      whole_(address.is_v4() ? 32 : 128),
      interface_(std::move(interface)),
      loopback_(::if_nametoindex("lo")) {}

HostAddress::~HostAddress() {
  for (int fd : {route_, diag_, raw_})
    if (fd >= 0) ::close(fd);
}

Result<std::unique_ptr<HostAddress>> HostAddress::open(Loop& loop, IpAddress address, std::string interface,
                                                       ClaimSocket::Claimed claimed) {
  std::unique_ptr<HostAddress> made(new HostAddress(address, std::move(interface)));
  if (Status opened = made->open_sockets(); !opened) return fail(std::move(opened).error());
  auto claims = ClaimSocket::open(loop, address, std::move(claimed));
  if (!claims) return fail(std::move(claims).error());
  made->claims_ = std::move(*claims);
  return made;
}

Status HostAddress::open_sockets() {
  auto refused = [](const char* what) { return fail(Errc::kIo, "{}: {}", what, std::strerror(errno)); };
  route_ = open_netlink(NETLINK_ROUTE);
  if (route_ < 0) return refused("no socket for interfaces' addresses");
  diag_ = open_netlink(NETLINK_SOCK_DIAG);
  if (diag_ < 0) return refused("no socket for connections that are to end");
  raw_ = ::socket(family_, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_RAW);
  if (raw_ < 0) return refused("no socket for waking clients, which takes CAP_NET_RAW");
  return {};
}

void HostAddress::follow_interface() {
  const unsigned index = ::if_nametoindex(interface_.c_str());
  if (index == 0 || std::exchange(index_, index) == index) {
    index_ = index;
    return;
  }
  if (claims_->follow(index)) return;
  index_ = 0;  // in the next round
  if (log_.allow())
    log_warning("cannot hear of {} at {}: {}", address_text(address_), interface_, std::strerror(errno));
}

AddressHost::Look HostAddress::look() {
  follow_interface();
  Look seen;
  find_address(seen);
  seen.interface = index_;
  if (index_ == 0) {
    seen.unfit = fmt::format("there is no interface {}", interface_);
    return seen;
  }
  ifreq request = request_of(interface_);
  if (::ioctl(route_, SIOCGIFFLAGS, &request) == 0) {
    if ((request.ifr_flags & IFF_UP) == 0) {
      seen.unfit = fmt::format("the interface {} is down", interface_);
    } else if ((request.ifr_flags & IFF_RUNNING) == 0) {
      seen.unfit = fmt::format("the interface {} has no link", interface_);
    }
  }
  request = request_of(interface_);
  if (::ioctl(route_, SIOCGIFHWADDR, &request) == 0) {
    std::memcpy(seen.hardware.data(), request.ifr_hwaddr.sa_data, seen.hardware.size());
    claims_->set_hardware(seen.hardware);
    if (request.ifr_hwaddr.sa_family != ARPHRD_ETHER)
      seen.unfit = fmt::format("the interface {} is none of Ethernet", interface_);
  }
  // Of IPv6 a host answers only for what is at the interface that was asked at.
  if (address_.is_v4()) seen.unshared = arp_warnings(interface_);
  return seen;
}

// At the loopback interface it is ours where it is there for a time: an administrator's is there for good.
void HostAddress::find_address(Look& seen) {
  Message<ifaddrmsg> request(RTM_GETADDR, NLM_F_DUMP);
  request.body.ifa_family = static_cast<std::uint8_t>(family_);
  const std::uint16_t kind = address_.is_v4() ? IFA_LOCAL : IFA_ADDRESS;
  const std::size_t size = AddressBytes(address_).size();
  const int error = ask_kernel(route_, request.header, [&](const nlmsghdr& header) {
    if (header.nlmsg_type != RTM_NEWADDR || header.nlmsg_len < NLMSG_LENGTH(sizeof(ifaddrmsg))) return;
    const auto* body = static_cast<const ifaddrmsg*>(NLMSG_DATA(&header));
    auto* at = reinterpret_cast<const rtattr*>(reinterpret_cast<const std::uint8_t*>(body) +
                                               NLMSG_ALIGN(sizeof *body));
    auto left = static_cast<int>(header.nlmsg_len - NLMSG_LENGTH(sizeof *body));
    for (; RTA_OK(at, left); at = RTA_NEXT(at, left)) {
      if (at->rta_type != kind || RTA_PAYLOAD(at) != size) continue;
      if (address_of(family_, RTA_DATA(at)) != address_) continue;
      const bool whole = body->ifa_prefixlen == whole_;
      if (whole && body->ifa_index == index_) {
        seen.has = true;
      } else if (whole && body->ifa_index == loopback_ && (body->ifa_flags & IFA_F_PERMANENT) == 0) {
        seen.at_loopback = true;
      } else {
        char name[IF_NAMESIZE] = "?";
        ::if_indextoname(body->ifa_index, name);
        seen.unfit = fmt::format("this host has it at {} as well, with /{}: take it away there", name,
                                 body->ifa_prefixlen);
      }
    }
  });
  if (error != 0) seen.unfit = fmt::format("this host's addresses cannot be read: {}", std::strerror(error));
}

Status HostAddress::change(unsigned interface, std::uint16_t type, std::uint16_t flags, unsigned seconds) {
  if (interface == 0) return fail(Errc::kUnavailable, "there is no interface {}", interface_);
  Message<ifaddrmsg> request(type, flags | NLM_F_ACK);
  request.body.ifa_family = static_cast<std::uint8_t>(family_);
  request.body.ifa_prefixlen = whole_;
  request.body.ifa_index = interface;
  // It was asked for before, and two hosts may have it for a moment: the kernel is not to wait, or refuse it.
  if (!address_.is_v4()) request.body.ifa_flags = IFA_F_NODAD;
  const AddressBytes bytes(address_);
  request.add(IFA_LOCAL, bytes.data(), bytes.size());
  request.add(IFA_ADDRESS, bytes.data(), bytes.size());
  if (seconds != 0) {
    const ifa_cacheinfo life{.ifa_prefered = seconds, .ifa_valid = seconds, .cstamp = 0, .tstamp = 0};
    request.add(IFA_CACHEINFO, &life, sizeof life);
  }
  const int error = ask_kernel(route_, request.header, [](const nlmsghdr&) {});
  if (error == 0) return {};
  return fail(error == EADDRNOTAVAIL ? Errc::kNotFound : Errc::kIo, "{}: {}",
              interface == loopback_ ? "lo" : interface_, std::strerror(error));
}

Status HostAddress::put_at(unsigned interface, unsigned seconds) {
  return change(interface, RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, seconds);
}

Status HostAddress::take_off(unsigned interface) {
  Status done = change(interface, RTM_DELADDR, 0, 0);
  if (!done && (done.error().code == Errc::kNotFound || done.error().code == Errc::kUnavailable)) return {};
  return done;
}

Status HostAddress::put(unsigned seconds) {
  return put_at(index_, seconds);
}
Status HostAddress::take_off() {
  return take_off(index_);
}
Status HostAddress::put_at_loopback(unsigned seconds) {
  return put_at(loopback_, seconds);
}
Status HostAddress::take_off_loopback() {
  return take_off(loopback_);
}

int HostAddress::each_connection(unsigned states, const std::function<void(const inet_diag_sockid&)>& seen) {
  Message<inet_diag_req_v2> dump(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP);
  dump.body.sdiag_family = static_cast<std::uint8_t>(family_);
  dump.body.sdiag_protocol = IPPROTO_TCP;
  dump.body.idiag_states = states;
  return ask_kernel(diag_, dump.header, [&](const nlmsghdr& header) {
    if (header.nlmsg_len < NLMSG_LENGTH(sizeof(inet_diag_msg))) return;
    const auto* body = static_cast<const inet_diag_msg*>(NLMSG_DATA(&header));
    if (body->idiag_family == family_ && address_of(family_, body->id.idiag_src) == address_) seen(body->id);
  });
}

std::vector<wire::AddressPeer> HostAddress::peers() {
  std::vector<wire::AddressPeer> found;
  const int error = each_connection(1u << TCP_ESTABLISHED, [&](const inet_diag_sockid& id) {
    if (found.size() < wire::kMaxAddressPeers) found.push_back(peer_of(family_, id));
  });
  if (error != 0 && log_.allow())
    log_warning("clients' connections cannot be listed: {}", std::strerror(error));
  std::sort(found.begin(), found.end());
  return found;
}

// An acknowledgement that fits nothing: the client answers with one of its own (RFC 9293 section 3.10.7.4),
// and this host's kernel that with a reset.
void HostAddress::wake(const std::vector<wire::AddressPeer>& peers) {
  for (const wire::AddressPeer& peer : peers) {
    if (peer.address.is_v4() != address_.is_v4()) continue;
    tcphdr tcp{};
    tcp.source = htons(peer.at);
    tcp.dest = htons(peer.port);
    tcp.doff = sizeof tcp / 4;
    tcp.ack = 1;
    tcp.window = htons(1);
    const std::span<const std::uint8_t> bytes(reinterpret_cast<const std::uint8_t*>(&tcp), sizeof tcp);
    tcp.check = transport_checksum(address_, peer.address, IPPROTO_TCP, bytes);
    std::vector<std::uint8_t> packet = ip_header(peer.address, sizeof tcp);
    packet.insert(packet.end(), bytes.begin(), bytes.end());
    const rpc::SocketAddress to({peer.address, 0});
    // Without room for it the next announcement's has some.
    (void)::sendto(raw_, packet.data(), packet.size(), MSG_DONTWAIT, to.get(), to.length());
  }
}

// The kernel adds IPv4's checksum.
std::vector<std::uint8_t> HostAddress::ip_header(IpAddress to, std::size_t payload) const {
  const AddressBytes from_bytes(address_), to_bytes(to);
  std::vector<std::uint8_t> header;
  const auto fill = [&header](auto fields) {
    header.resize(sizeof fields);
    std::memcpy(header.data(), &fields, sizeof fields);
  };
  if (address_.is_v4()) {
    iphdr ip{};
    ip.version = 4;
    ip.ihl = sizeof ip / 4;
    ip.ttl = kTtl;
    ip.protocol = IPPROTO_TCP;
    std::memcpy(&ip.saddr, from_bytes.data(), from_bytes.size());
    std::memcpy(&ip.daddr, to_bytes.data(), to_bytes.size());
    fill(ip);
  } else {
    ip6_hdr ip{};
    ip.ip6_vfc = 6 << 4;
    ip.ip6_plen = htons(static_cast<std::uint16_t>(payload));
    ip.ip6_nxt = IPPROTO_TCP;
    ip.ip6_hlim = kTtl;
    std::memcpy(&ip.ip6_src, from_bytes.data(), from_bytes.size());
    std::memcpy(&ip.ip6_dst, to_bytes.data(), to_bytes.size());
    fill(ip);
  }
  return header;
}

void HostAddress::drop_connections(const Keep& keep) {
  // All states but listening: TIME-WAIT, half-open and half-closed ones as well.
  constexpr unsigned kStates = ((1u << (TCP_CLOSING + 1)) - 1) & ~(1u << TCP_LISTEN);
  std::vector<inet_diag_sockid> found;
  int error = each_connection(kStates, [&](const inet_diag_sockid& id) {
    if (!keep || !keep(peer_of(family_, id))) found.push_back(id);
  });
  for (const inet_diag_sockid& each : found) {
    Message<inet_diag_req_v2> end(SOCK_DESTROY, NLM_F_ACK);
    end.body.sdiag_family = static_cast<std::uint8_t>(family_);
    end.body.sdiag_protocol = IPPROTO_TCP;
    end.body.idiag_states = ~0u;
    end.body.id = each;
    const int refused = ask_kernel(diag_, end.header, [](const nlmsghdr&) {});
    if (refused != 0 && refused != ENOENT) error = refused;  // gone is gone
    if (refused == EOPNOTSUPP) break;
  }
  if (error == EOPNOTSUPP && !std::exchange(lacks_destroy_, true)) {
    log_warning(
        "this kernel has no INET_DIAG_DESTROY: clients whose connections are left from an earlier time "
        "wait until these are over");
  } else if (error != 0 && error != EOPNOTSUPP && log_.allow()) {
    log_warning("cannot end what is left of connections: {}", std::strerror(error));
  }
}

void HostAddress::announce() {
  claims_->announce();
}

void HostAddress::probe() {
  claims_->probe();
}

}  // namespace slice::proxy
