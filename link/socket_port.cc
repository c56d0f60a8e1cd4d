#include "link/socket_port.h"

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "link/frame.h"
#include "rpc/bound_socket.h"
#include "rpc/udp_buffers.h"

namespace slice::link {
namespace {

constexpr std::size_t kBatch = 64;              // frames of one system call
constexpr int kBatchesInRound = 8;              // that are received, so that others have their turn
constexpr std::size_t kMostWaiting = 32 << 20;  // bytes
constexpr int kSocketBuffer = 8 << 20;          // bytes
constexpr std::size_t kBookkeeping = 768;       // bytes of a frame in the kernel, about, beside its own
constexpr std::size_t kUsualMtu = 1500, kUdpHead = 8, kIpv4Head = 20, kIpv6Head = 40, kMostUdp = 65507;
constexpr Duration kAgainAfter = std::chrono::milliseconds(1);

Status system_error(std::string_view what) {
  return fail(Errc::kIo, "{}: {}", what, std::strerror(errno));
}

// As the route says, where there is one.
std::size_t mtu_towards(rpc::Endpoint there) {
  const int fd = rpc::socket_for(there.address, SOCK_DGRAM);
  const rpc::SocketAddress to(there);
  int mtu = 0;
  socklen_t size = sizeof mtu;
  const bool v4 = there.address.is_v4();
  if (fd >= 0 && ::connect(fd, to.get(), to.length()) == 0 &&
      ::getsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_MTU : IPV6_MTU, &mtu, &size) != 0)
    mtu = 0;
  if (fd >= 0) ::close(fd);
  return mtu > 0 ? static_cast<std::size_t>(mtu) : kUsualMtu;
}

sockaddr_ll address_on(int interface, EtherType type) {
  sockaddr_ll at{};
  at.sll_family = AF_PACKET;
  at.sll_protocol = htons(type.number);
  at.sll_ifindex = interface;
  return at;
}

template <class T>
Address address_of_bytes(const T& at) {
  return Address({reinterpret_cast<const std::uint8_t*>(&at), sizeof at});
}

// Frames that are too long are sent by nobody, rather than in fragments.
void forbid_fragments(int fd, bool v4) {
  const int how = v4 ? IP_PMTUDISC_DO : IPV6_PMTUDISC_DO;
  ::setsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER, &how,
               sizeof how);
}

}  // namespace

struct SocketPort::Batch {
  std::array<mmsghdr, kBatch> headers{};
  std::array<iovec, kBatch> pieces{};
  std::array<std::array<std::uint8_t, Address::kMost>, kBatch> names{};
  std::vector<std::uint8_t> bytes;  // of what is received
};

Result<HardwareAddress> parse_hardware_address(std::string_view text) {
  HardwareAddress out{};
  bool good = text.size() == 17;
  for (std::size_t i = 0; good && i < out.size(); ++i) {
    const char* const begin = text.data() + i * 3;
    const auto [end, error] = std::from_chars(begin, begin + 2, out[i], 16);
    good = error == std::errc() && end == begin + 2 && (i == 5 || *end == ':');
  }
  if (!good) return fail(Errc::kInvalid, "'{}' is no Ethernet address like 02:00:00:00:00:01", text);
  return out;
}

SocketPort::SocketPort(rpc::EpollLoop& loop, Metrics& metrics, int fd, int interface, EtherType type,
                       std::size_t largest)
    : loop_(loop),
      sent_(metrics.counter("link_frames_sent_total", "frames of the link, and of AoE, that went out")),
      dropped_(
          metrics.counter("link_frames_dropped_total",
                          "frames of the link, and of AoE, that did not go out, since too many waited or "
                          "the system refused")),
      fd_(fd),
      interface_(interface),
      type_(type),
      largest_(largest),
      batch_(std::make_unique<Batch>()),
      self_(std::make_shared<SocketPort*>(this)) {
  rpc::set_udp_buffers(fd_, kSocketBuffer, kSocketBuffer);
  int received = 0;
  socklen_t size = sizeof received;
  ::getsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &received, &size);
  buffer_ = static_cast<std::size_t>(received);
  batch_->bytes.resize(kBatch * (largest_ + 1));
  round_end_ = loop_.at_round_end([self = self_] {
    if (*self != nullptr) (*self)->flush();
  });
  loop_.watch(fd_, EPOLLIN, [this](std::uint32_t events) { on_events(events); });
}

SocketPort::~SocketPort() {
  *self_ = nullptr;
  loop_.unwatch(fd_);
  ::close(fd_);
}

Result<std::unique_ptr<SocketPort>> SocketPort::udp(rpc::EpollLoop& loop, Metrics& metrics, rpc::Endpoint at,
                                                    std::optional<rpc::Endpoint> towards) {
  auto fd = rpc::bound_socket(SOCK_DGRAM, at);
  if (!fd) return fail(std::move(fd.error()));
  const bool v4 = at.address.is_v4();
  forbid_fragments(*fd, v4);
  const std::size_t heads = kUdpHead + (v4 ? kIpv4Head : kIpv6Head);
  const std::size_t largest = towards ? std::min(mtu_towards(*towards) - heads, kMostUdp) : kMostUdp;
  return std::unique_ptr<SocketPort>(new SocketPort(loop, metrics, *fd, 0, {}, largest));
}

Result<std::unique_ptr<SocketPort>> SocketPort::ethernet(rpc::EpollLoop& loop, Metrics& metrics,
                                                         const std::string& interface, EtherType type) {
  const int fd = ::socket(AF_PACKET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return fail(system_error("cannot make a socket for Ethernet frames").error());
  ifreq own{};
  interface.copy(own.ifr_name, sizeof own.ifr_name - 1);
  const int index = static_cast<int>(if_nametoindex(interface.c_str()));
  const sockaddr_ll at = address_on(index, type);
  if (index == 0 || ::ioctl(fd, SIOCGIFMTU, &own) != 0 ||
      ::bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) {
    Status status = system_error(fmt::format("interface '{}'", interface));
    ::close(fd);
    return fail(std::move(status.error()));
  }
  return std::unique_ptr<SocketPort>(
      new SocketPort(loop, metrics, fd, index, type, static_cast<std::size_t>(own.ifr_mtu)));
}

// The kernel counts a frame with its bookkeeping, in memory of powers of two.
std::size_t SocketPort::room(std::size_t block) const {
  return buffer_ / (2 * block + kBookkeeping);
}

Address SocketPort::address_of(rpc::Endpoint at) {
  const rpc::SocketAddress socket(at);
  return Address({reinterpret_cast<const std::uint8_t*>(socket.get()), socket.length()});
}

Address SocketPort::address_of(const HardwareAddress& at) const {
  sockaddr_ll to = address_on(interface_, type_);
  to.sll_halen = static_cast<std::uint8_t>(at.size());
  std::ranges::copy(at, to.sll_addr);
  return address_of_bytes(to);
}

rpc::Endpoint SocketPort::bound_at() const {
  return rpc::local_endpoint(fd_);
}

std::string SocketPort::name_of(const Address& address) const {
  const ByteView bytes = address.view();
  if (interface_ == 0)
    return rpc::to_string(rpc::endpoint_of(reinterpret_cast<const sockaddr*>(bytes.data()),
                                           static_cast<socklen_t>(bytes.size())));
  sockaddr_ll at{};
  std::memcpy(&at, bytes.data(), std::min(bytes.size(), sizeof at));
  const auto& mac = at.sll_addr;
  return fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", mac[0], mac[1], mac[2], mac[3], mac[4],
                     mac[5]);
}

void SocketPort::on_events(std::uint32_t events) {
  if ((events & EPOLLOUT) != 0) {
    watches_room_ = false;
    loop_.change(fd_, EPOLLIN);
    flush();
  }
  if ((events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) receive();
}

bool SocketPort::is_for_us(unsigned char packet_type) const {
  return packet_type == PACKET_HOST || (type_.broadcasts && packet_type == PACKET_BROADCAST);
}

void SocketPort::receive() {
  const std::size_t each = largest_ + 1;  // one more, to see what is too long
  const std::shared_ptr<SocketPort*> self = self_;
  for (int round = 0; round < kBatchesInRound; ++round) {
    for (std::size_t i = 0; i < kBatch; ++i) {
      batch_->pieces[i] = {batch_->bytes.data() + i * each, each};
      batch_->headers[i].msg_hdr = {.msg_name = batch_->names[i].data(),
                                    .msg_namelen = Address::kMost,
                                    .msg_iov = &batch_->pieces[i],
                                    .msg_iovlen = 1};
    }
    const int got = ::recvmmsg(fd_, batch_->headers.data(), kBatch, MSG_DONTWAIT, nullptr);
    if (got <= 0) return;
    for (std::size_t i = 0; i < static_cast<std::size_t>(got); ++i) {
      const mmsghdr& header = batch_->headers[i];
      const ByteView frame{batch_->bytes.data() + i * each, header.msg_len};
      if (frame.size() > largest_ || !taker_) continue;
      if (interface_ == 0) {
        taker_(Address({batch_->names[i].data(), header.msg_hdr.msg_namelen}), frame);
      } else {
        sockaddr_ll from{};
        std::memcpy(&from, batch_->names[i].data(), sizeof from);
        if (!is_for_us(from.sll_pkttype) || from.sll_halen != sizeof(HardwareAddress)) continue;
        HardwareAddress mac{};
        std::copy_n(from.sll_addr, mac.size(), mac.begin());
        taker_(address_of(mac), frame);
      }
      if (*self == nullptr) return;
    }
    if (static_cast<std::size_t>(got) < kBatch) return;
  }
}

void SocketPort::send(const Address& to, Buffer frame) {
  if (waiting_bytes_ + frame.size() > kMostWaiting) return dropped_.add();
  waiting_bytes_ += frame.size();
  waiting_.push_back({to, std::move(frame)});
  if (!watches_room_) round_end_.want();
}

void SocketPort::flush() {
  while (!waiting_.empty()) {
    const std::size_t done = send_some();
    if (done == 0) return;
    for (std::size_t i = 0; i < done; ++i) {
      waiting_bytes_ -= waiting_.front().frame.size();
      waiting_.pop_front();
    }
  }
}

std::size_t SocketPort::send_some() {
  const std::size_t count = std::min(waiting_.size(), kBatch);
  for (std::size_t i = 0; i < count; ++i) {
    Waiting& each = waiting_[i];
    batch_->pieces[i] = {each.frame.data(), each.frame.size()};
    batch_->headers[i].msg_hdr = {.msg_name = const_cast<std::uint8_t*>(each.to.view().data()),
                                  .msg_namelen = static_cast<socklen_t>(each.to.view().size()),
                                  .msg_iov = &batch_->pieces[i],
                                  .msg_iovlen = 1};
  }
  const int sent = ::sendmmsg(fd_, batch_->headers.data(), static_cast<unsigned>(count), MSG_DONTWAIT);
  if (sent > 0) {
    sent_.add(static_cast<std::uint64_t>(sent));
    return static_cast<std::size_t>(sent);
  }
  if (errno == EAGAIN || errno == ENOBUFS) {
    flush_later();
    return 0;
  }
  dropped_.add();  // the first one; what is needed is asked for again
  return 1;
}

// The transmitter is full: the socket tells when there is room. A queue of the network does not.
void SocketPort::flush_later() {
  if (errno == ENOBUFS) {
    loop_.after(kAgainAfter, [self = self_] {
      if (*self != nullptr) (*self)->flush();
    });
    return;
  }
  watches_room_ = true;
  loop_.change(fd_, EPOLLIN | EPOLLOUT);
}

}  // namespace slice::link
