#include "control/proxyd/claim_socket.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if_arp.h>
#include <netinet/icmp6.h>
#include <netinet/ip6.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/bytes.h"

namespace slice::proxy {
namespace {

constexpr int kPacketsARound = 16;

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

// An Ethernet frame with a neighbour solicitation or advertisement (RFC 4861 sections 4.3 and 4.4).
struct NeighbourFrame {
  std::uint8_t to[6], from[6];
  std::uint8_t type[2];
  struct Ip {
    std::uint8_t version[4], length[2], next_header, hop_limit;
    std::uint8_t from[16], to[16];
  } ip;
  struct Message {
    std::uint8_t type, code, checksum[2];
    std::uint8_t flags[4];
    std::uint8_t target[16];
    std::uint8_t option, option_size, hardware[6];  // an advertisement's alone
  } message;
};
static_assert(sizeof(NeighbourFrame) == 86);
constexpr std::size_t kWithoutOption = sizeof(NeighbourFrame) - 8;
constexpr std::uint32_t kNextHeaderAt = 20, kMessageAt = 54;
constexpr std::uint8_t kHopLimit = 255;      // of what no router has passed on
constexpr std::uint8_t kOverride = 0x20;     // what others have of the address is not so any more
constexpr std::uint8_t kTargetHardware = 2;  // the option

template <class Frame>
std::span<const std::uint8_t> bytes_of(const Frame& frame, std::size_t size = sizeof(Frame)) {
  return {reinterpret_cast<const std::uint8_t*>(&frame), size};
}

template <std::size_t kSize>
IpAddress address_at(const std::uint8_t (&at)[kSize]) {
  return IpAddress::of_bytes(at, kSize);
}

std::string hardware_text(const std::uint8_t (&address)[6]) {
  return fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", address[0], address[1], address[2],
                     address[3], address[4], address[5]);
}

// So that the socket has nothing else to look at: ARP by who has the address, or neighbour discovery's two.
bool attach_filter(int socket, IpAddress address) {
  sock_filter arp[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kSenderIpAt),
                       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, address.v4(), 0, 1),
                       BPF_STMT(BPF_RET | BPF_K, sizeof(ArpFrame)), BPF_STMT(BPF_RET | BPF_K, 0)};
  sock_filter neighbours[] = {BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kNextHeaderAt),
                              BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_ICMPV6, 0, 4),
                              BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kMessageAt),
                              BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ND_NEIGHBOR_SOLICIT, 1, 0),
                              BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ND_NEIGHBOR_ADVERT, 0, 1),
                              BPF_STMT(BPF_RET | BPF_K, sizeof(NeighbourFrame)),
                              BPF_STMT(BPF_RET | BPF_K, 0)};
  const sock_fprog filter = address.is_v4() ? sock_fprog{.len = std::size(arp), .filter = arp}
                                            : sock_fprog{.len = std::size(neighbours), .filter = neighbours};
  return ::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) == 0;
}

// Where what is said of an address is said.
sockaddr_ll link_of(IpAddress address, unsigned interface) {
  sockaddr_ll where{};
  where.sll_family = AF_PACKET;
  where.sll_protocol = htons(address.is_v4() ? ETH_P_ARP : ETH_P_IPV6);
  where.sll_ifindex = static_cast<int>(interface);
  return where;
}

// The hardware address of who says in the frame that it has the address; nothing where nobody does.
const std::uint8_t (*claimant(const ArpFrame& frame, IpAddress address))[6] {
  const bool claims = load_be<std::uint16_t>(frame.protocol) == ETH_P_IP &&
                      frame.hardware_size == sizeof frame.sender &&
                      frame.protocol_size == sizeof frame.sender_ip && address_at(frame.sender_ip) == address;
  return claims ? &frame.sender : nullptr;
}
// Who has it says so, and asks from it. Without the option it is who sent the frame.
const std::uint8_t (*claimant(const NeighbourFrame& frame, std::size_t size, IpAddress address))[6] {
  if (frame.ip.hop_limit != kHopLimit || frame.message.code != 0) return nullptr;
  const bool answers = frame.message.type == ND_NEIGHBOR_ADVERT;
  if (!answers) return address_at(frame.ip.from) == address ? &frame.from : nullptr;
  if (address_at(frame.message.target) != address) return nullptr;
  const bool says =
      size == sizeof frame && frame.message.option == kTargetHardware && frame.message.option_size == 1;
  return says ? &frame.message.hardware : &frame.from;
}

}  // namespace

std::uint16_t transport_checksum(IpAddress from, IpAddress to, std::uint8_t protocol,
                                 std::span<const std::uint8_t> bytes) {
  std::uint64_t sum = htons(protocol) + htons(static_cast<std::uint16_t>(bytes.size()));
  const auto add = [&sum](std::span<const std::uint8_t> some) {
    for (std::size_t i = 0; i < some.size(); i += 2) {
      std::uint8_t pair[2] = {some[i], i + 1 < some.size() ? some[i + 1] : std::uint8_t{0}};
      std::uint16_t word;
      std::memcpy(&word, pair, sizeof word);
      sum += word;
    }
  };
  for (const IpAddress each : {from, to}) {
    const AddressBytes address(each);
    add({address.data(), address.size()});
  }
  add(bytes);
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

Result<std::unique_ptr<ClaimSocket>> ClaimSocket::open(Loop& loop, IpAddress address, Claimed claimed) {
  const char* what = address.is_v4() ? "ARP" : "neighbour discovery";
  // Of no protocol before the filter is there.
  const int socket = ::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0)
    return fail(Errc::kIo, "no socket for {}, which takes CAP_NET_RAW: {}", what, std::strerror(errno));
  if (!attach_filter(socket, address)) {
    const int error = errno;
    ::close(socket);
    return fail(Errc::kIo, "no filter for {}: {}", what, std::strerror(error));
  }
  return std::unique_ptr<ClaimSocket>(new ClaimSocket(loop, address, std::move(claimed), socket));
}

ClaimSocket::ClaimSocket(Loop& loop, IpAddress address, Claimed claimed, int socket)
    : loop_(loop), address_(address), claimed_(std::move(claimed)), socket_(socket) {
  loop_.watch_readable(socket_, [this] { read(); });
}

ClaimSocket::~ClaimSocket() {
  loop_.unwatch_readable(socket_);
  ::close(socket_);
}

bool ClaimSocket::follow(unsigned interface) {
  sockaddr_ll where = link_of(address_, interface);
  if (::bind(socket_, reinterpret_cast<sockaddr*>(&where), sizeof where) != 0) return false;
  interface_ = interface;
  return true;
}

// As RFC 5227 section 3 has it: a request, since some hosts learn from these alone.
void ClaimSocket::announce() {
  if (!address_.is_v4()) return send_neighbour(false);
  send_arp(address_.v4());
}

void ClaimSocket::probe() {
  if (!address_.is_v4()) return send_neighbour(true);
  send_arp(0);
}

void ClaimSocket::send_arp(std::uint32_t sender) {
  ArpFrame frame{};
  std::memset(frame.to, 0xff, sizeof frame.to);
  std::copy(hardware_.begin(), hardware_.end(), frame.from);
  store_be(frame.type, std::uint16_t{ETH_P_ARP});
  store_be(frame.hardware, std::uint16_t{ARPHRD_ETHER});
  store_be(frame.protocol, std::uint16_t{ETH_P_IP});
  frame.hardware_size = sizeof frame.sender;
  frame.protocol_size = sizeof frame.sender_ip;
  store_be(frame.operation, std::uint16_t{ARPOP_REQUEST});
  std::copy(hardware_.begin(), hardware_.end(), frame.sender);
  store_be(frame.sender_ip, sender);
  store_be(frame.target_ip, address_.v4());
  send(bytes_of(frame));
}

// To all nodes that it is here; or, as before an address is taken (RFC 4862 section 5.4.2), from nowhere to
// those who might have it.
void ClaimSocket::send_neighbour(bool asks) {
  NeighbourFrame frame{};
  const IpAddress::Bytes target = address_.bytes();
  const IpAddress everybody = IpAddress::of_words(0xff02ull << 48, 1);
  const IpAddress those_who_might =
      IpAddress::of_words(0xff02ull << 48, 0x1ff000000ull | (address_.low() & 0xffffff));
  const IpAddress from = asks ? IpAddress() : address_, to = asks ? those_who_might : everybody;
  const std::size_t size = asks ? kWithoutOption : sizeof frame;
  std::copy(target.begin(), target.end(), frame.message.target);
  frame.message.type = asks ? ND_NEIGHBOR_SOLICIT : ND_NEIGHBOR_ADVERT;
  if (!asks) {
    frame.message.flags[0] = kOverride;
    frame.message.option = kTargetHardware;
    frame.message.option_size = 1;  // of eight bytes
    std::copy(hardware_.begin(), hardware_.end(), frame.message.hardware);
  }
  const std::span<const std::uint8_t> message =
      bytes_of(frame.message, sizeof frame.message - (sizeof frame - size));
  // None is IPv6's too here, with twelve zeros more that add nothing.
  const std::uint16_t sum = transport_checksum(from, to, IPPROTO_ICMPV6, message);
  std::memcpy(frame.message.checksum, &sum, sizeof sum);
  const IpAddress::Bytes sender = from.bytes(), receivers = to.bytes();
  std::copy(sender.begin(), sender.end(), frame.ip.from);
  std::copy(receivers.begin(), receivers.end(), frame.ip.to);
  frame.ip.version[0] = 6 << 4;
  store_be(frame.ip.length, static_cast<std::uint16_t>(message.size()));
  frame.ip.next_header = IPPROTO_ICMPV6;
  frame.ip.hop_limit = kHopLimit;
  frame.to[0] = frame.to[1] = 0x33;  // RFC 2464 section 7
  std::copy_n(receivers.begin() + 12, 4, frame.to + 2);
  std::copy(hardware_.begin(), hardware_.end(), frame.from);
  store_be(frame.type, std::uint16_t{ETH_P_IPV6});
  send(bytes_of(frame, size));
}

void ClaimSocket::send(std::span<const std::uint8_t> frame) {
  if (interface_ == 0) return;
  sockaddr_ll where = link_of(address_, interface_);
  where.sll_halen = ETH_ALEN;
  std::copy_n(frame.begin(), ETH_ALEN, where.sll_addr);
  const ssize_t sent = ::sendto(socket_, frame.data(), frame.size(), MSG_DONTWAIT,
                                reinterpret_cast<sockaddr*>(&where), sizeof where);
  if (sent < 0 && log_.allow())
    log_warning("cannot tell others of {}: {}", address_text(address_), std::strerror(errno));
}

void ClaimSocket::read() {
  for (int i = 0; i < kPacketsARound; ++i) {
    union {
      ArpFrame arp;
      NeighbourFrame neighbour;
    } frame{.neighbour = {}};
    const ssize_t n = ::recv(socket_, &frame, sizeof frame, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == ENETDOWN)) continue;
    if (n < 0) return;
    const auto size = static_cast<std::size_t>(n);
    const std::uint8_t(*by)[6] = nullptr;
    if (address_.is_v4()) {
      if (size >= sizeof frame.arp) by = claimant(frame.arp, address_);
    } else if (size >= kWithoutOption) {
      by = claimant(frame.neighbour, size, address_);
    }
    if (by == nullptr || std::equal(hardware_.begin(), hardware_.end(), *by)) continue;
    claimed_(hardware_text(*by));
  }
}

}  // namespace slice::proxy
