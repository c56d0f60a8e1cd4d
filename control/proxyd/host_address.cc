#include "control/proxyd/host_address.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/inet_diag.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/bytes.h"
#include "control/xdp/reverse_path.h"

namespace slice::proxy {
namespace {

constexpr std::size_t kAnswer = 32 << 10;
constexpr int kArpPacketsARound = 16;

// An Ethernet frame with an ARP packet for IPv4 (RFC 826).
struct ArpFrame {
  std::uint8_t to[6], from[6];
  std::uint8_t type[2];
  std::uint8_t hardware[2], protocol[2];
  std::uint8_t hardware_size, protocol_size;
  std::uint8_t operation[2];
  std::uint8_t sender[6], sender_ip[4];
  std::uint8_t target[6], target_ip[4];
};
static_assert(sizeof(ArpFrame) == 42);
constexpr std::uint32_t kSenderIpAt = 28;

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

// Of a segment without data.
std::uint16_t tcp_checksum(const iphdr& ip, const tcphdr& tcp) {
  std::uint64_t sum = (ip.saddr & 0xffff) + (ip.saddr >> 16) + (ip.daddr & 0xffff) + (ip.daddr >> 16) +
                      htons(IPPROTO_TCP) + htons(sizeof tcp);
  std::uint16_t words[sizeof tcp / 2];
  std::memcpy(words, &tcp, sizeof tcp);
  for (std::uint16_t word : words) sum += word;
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

wire::AddressPeer peer_of(const inet_diag_sockid& id) {
  return {ntohl(id.idiag_dst[0]), ntohs(id.idiag_dport), ntohs(id.idiag_sport)};
}

std::string hardware_text(const std::uint8_t (&address)[6]) {
  return fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", address[0], address[1], address[2],
                     address[3], address[4], address[5]);
}

}  // namespace

HostAddress::HostAddress(Loop& loop, std::uint32_t address, std::string interface, Claimed claimed)
    : loop_(loop),
      address_(address),
      interface_(std::move(interface)),
      claimed_(std::move(claimed)),
      loopback_(::if_nametoindex("lo")) {}

HostAddress::~HostAddress() {
  if (arp_ >= 0) loop_.unwatch_readable(arp_);
  for (int fd : {route_, arp_, diag_, raw_})
    if (fd >= 0) ::close(fd);
}

Result<std::unique_ptr<HostAddress>> HostAddress::open(Loop& loop, std::uint32_t address,
                                                       std::string interface, Claimed claimed) {
  std::unique_ptr<HostAddress> made(new HostAddress(loop, address, std::move(interface), std::move(claimed)));
  if (Status opened = made->open_sockets(); !opened) return fail(std::move(opened).error());
  return made;
}

Status HostAddress::open_sockets() {
  auto refused = [](const char* what) { return fail(Errc::kIo, "{}: {}", what, std::strerror(errno)); };
  route_ = open_netlink(NETLINK_ROUTE);
  if (route_ < 0) return refused("no socket for interfaces' addresses");
  diag_ = open_netlink(NETLINK_SOCK_DIAG);
  if (diag_ < 0) return refused("no socket for connections that are to end");
  raw_ = ::socket(AF_INET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_RAW);
  if (raw_ < 0) return refused("no socket for waking clients, which takes CAP_NET_RAW");
  // Of no protocol before the filter is there.
  const int arp = ::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (arp < 0) return refused("no socket for ARP, which takes CAP_NET_RAW");
  sock_filter program[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kSenderIpAt),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, address_, 0, 1),
                           BPF_STMT(BPF_RET | BPF_K, sizeof(ArpFrame)), BPF_STMT(BPF_RET | BPF_K, 0)};
  sock_fprog filter{.len = std::size(program), .filter = program};
  if (::setsockopt(arp, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) != 0) {
    Status failed = refused("no filter for ARP");
    ::close(arp);
    return failed;
  }
  arp_ = arp;
  loop_.watch_readable(arp_, [this] { read_arp(); });
  return {};
}

void HostAddress::follow_interface() {
  const unsigned index = ::if_nametoindex(interface_.c_str());
  if (index == 0 || std::exchange(index_, index) == index) {
    index_ = index;
    return;
  }
  sockaddr_ll where{};
  where.sll_family = AF_PACKET;
  where.sll_protocol = htons(ETH_P_ARP);
  where.sll_ifindex = static_cast<int>(index);
  if (::bind(arp_, reinterpret_cast<sockaddr*>(&where), sizeof where) == 0) return;
  index_ = 0;  // in the next round
  if (log_.allow()) log_warning("cannot watch ARP at {}: {}", interface_, std::strerror(errno));
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
    std::memcpy(hardware_.data(), request.ifr_hwaddr.sa_data, hardware_.size());
    seen.hardware = hardware_;
    if (request.ifr_hwaddr.sa_family != ARPHRD_ETHER)
      seen.unfit = fmt::format("the interface {} is none of Ethernet", interface_);
  }
  seen.unshared = arp_warnings(interface_);
  return seen;
}

// At the loopback interface it is ours where it is there for a time: an administrator's is there for good.
void HostAddress::find_address(Look& seen) {
  Message<ifaddrmsg> request(RTM_GETADDR, NLM_F_DUMP);
  request.body.ifa_family = AF_INET;
  const int error = ask_kernel(route_, request.header, [&](const nlmsghdr& header) {
    if (header.nlmsg_type != RTM_NEWADDR || header.nlmsg_len < NLMSG_LENGTH(sizeof(ifaddrmsg))) return;
    const auto* body = static_cast<const ifaddrmsg*>(NLMSG_DATA(&header));
    auto* at = reinterpret_cast<const rtattr*>(reinterpret_cast<const std::uint8_t*>(body) +
                                               NLMSG_ALIGN(sizeof *body));
    auto left = static_cast<int>(header.nlmsg_len - NLMSG_LENGTH(sizeof *body));
    for (; RTA_OK(at, left); at = RTA_NEXT(at, left)) {
      if (at->rta_type != IFA_LOCAL || RTA_PAYLOAD(at) != 4) continue;
      if (load_be<std::uint32_t>(static_cast<const std::uint8_t*>(RTA_DATA(at))) != address_) continue;
      const bool whole = body->ifa_prefixlen == 32;
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
  request.body.ifa_family = AF_INET;
  request.body.ifa_prefixlen = 32;
  request.body.ifa_index = interface;
  std::uint8_t bytes[4];
  store_be(bytes, address_);
  request.add(IFA_LOCAL, bytes, sizeof bytes);
  request.add(IFA_ADDRESS, bytes, sizeof bytes);
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
  dump.body.sdiag_family = AF_INET;
  dump.body.sdiag_protocol = IPPROTO_TCP;
  dump.body.idiag_states = states;
  return ask_kernel(diag_, dump.header, [&](const nlmsghdr& header) {
    if (header.nlmsg_len < NLMSG_LENGTH(sizeof(inet_diag_msg))) return;
    const auto* body = static_cast<const inet_diag_msg*>(NLMSG_DATA(&header));
    if (body->idiag_family == AF_INET && ntohl(body->id.idiag_src[0]) == address_) seen(body->id);
  });
}

std::vector<wire::AddressPeer> HostAddress::peers() {
  std::vector<wire::AddressPeer> found;
  const int error = each_connection(1u << TCP_ESTABLISHED, [&found](const inet_diag_sockid& id) {
    if (found.size() < wire::kMaxAddressPeers) found.push_back(peer_of(id));
  });
  if (error != 0 && log_.allow())
    log_warning("clients' connections cannot be listed: {}", std::strerror(error));
  std::sort(found.begin(), found.end());
  return found;
}

// An acknowledgement that fits nothing: the client answers with one of its own (RFC 9293 section 3.10.7.4),
// and this host's kernel that with a reset.
void HostAddress::wake(const std::vector<wire::AddressPeer>& peers) {
  struct Packet {
    iphdr ip{};
    tcphdr tcp{};
  };
  for (const wire::AddressPeer& peer : peers) {
    Packet packet;
    packet.ip.version = 4;
    packet.ip.ihl = sizeof packet.ip / 4;
    packet.ip.ttl = 64;
    packet.ip.protocol = IPPROTO_TCP;
    packet.ip.saddr = htonl(address_);
    packet.ip.daddr = htonl(peer.address);
    packet.tcp.source = htons(peer.at);
    packet.tcp.dest = htons(peer.port);
    packet.tcp.doff = sizeof packet.tcp / 4;
    packet.tcp.ack = 1;
    packet.tcp.window = htons(1);
    packet.tcp.check = tcp_checksum(packet.ip, packet.tcp);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = packet.ip.daddr;
    // Without room for it the next announcement's has some.
    (void)::sendto(raw_, &packet, sizeof packet, MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&to), sizeof to);
  }
}

void HostAddress::drop_connections(const Keep& keep) {
  // All states but listening: TIME-WAIT, half-open and half-closed ones as well.
  constexpr unsigned kStates = ((1u << (TCP_CLOSING + 1)) - 1) & ~(1u << TCP_LISTEN);
  std::vector<inet_diag_sockid> found;
  int error = each_connection(kStates, [&](const inet_diag_sockid& id) {
    if (!keep || !keep(peer_of(id))) found.push_back(id);
  });
  for (const inet_diag_sockid& each : found) {
    Message<inet_diag_req_v2> end(SOCK_DESTROY, NLM_F_ACK);
    end.body.sdiag_family = AF_INET;
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

void HostAddress::send_arp(std::uint32_t sender) {
  if (index_ == 0) return;
  ArpFrame frame{};
  std::memset(frame.to, 0xff, sizeof frame.to);
  std::memcpy(frame.from, hardware_.data(), sizeof frame.from);
  store_be(frame.type, std::uint16_t{ETH_P_ARP});
  store_be(frame.hardware, std::uint16_t{ARPHRD_ETHER});
  store_be(frame.protocol, std::uint16_t{ETH_P_IP});
  frame.hardware_size = sizeof frame.sender;
  frame.protocol_size = sizeof frame.sender_ip;
  store_be(frame.operation, std::uint16_t{ARPOP_REQUEST});
  std::memcpy(frame.sender, hardware_.data(), sizeof frame.sender);
  store_be(frame.sender_ip, sender);
  store_be(frame.target_ip, address_);
  sockaddr_ll where{};
  where.sll_family = AF_PACKET;
  where.sll_protocol = htons(ETH_P_ARP);
  where.sll_ifindex = static_cast<int>(index_);
  where.sll_halen = sizeof frame.to;
  std::memset(where.sll_addr, 0xff, sizeof frame.to);
  if (::sendto(arp_, &frame, sizeof frame, MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&where), sizeof where) <
          0 &&
      log_.allow()) {
    log_warning("cannot send ARP at {}: {}", interface_, std::strerror(errno));
  }
}

// As RFC 5227 section 3 has it: a request, since some hosts learn from these alone.
void HostAddress::announce() {
  send_arp(address_);
}

void HostAddress::probe() {
  send_arp(0);
}

void HostAddress::read_arp() {
  for (int i = 0; i < kArpPacketsARound; ++i) {
    ArpFrame frame{};
    const ssize_t n = ::recv(arp_, &frame, sizeof frame, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == ENETDOWN)) continue;
    if (n < 0) return;
    if (static_cast<std::size_t>(n) < sizeof frame) continue;
    if (load_be<std::uint16_t>(frame.protocol) != ETH_P_IP || frame.hardware_size != sizeof frame.sender ||
        frame.protocol_size != sizeof frame.sender_ip ||
        load_be<std::uint32_t>(frame.sender_ip) != address_ ||
        std::memcmp(frame.sender, hardware_.data(), hardware_.size()) == 0)
      continue;
    claimed_(hardware_text(frame.sender));
  }
}

}  // namespace slice::proxy
