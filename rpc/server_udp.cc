#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "rpc/server_internal.h"

namespace slice::rpc {
namespace {

constexpr std::size_t kBatch = 16;             // datagrams a system call
constexpr std::size_t kMaxDatagram = 65536;    // bytes
constexpr std::size_t kMaxUdpPayload = 65507;  // bytes that one can be sent with
constexpr int kBatchesARound = 4;
constexpr std::uint64_t kSilentTicks = 10;  // after which a sender without calls is forgotten

std::size_t memory_of_call(const Buffer& record) {
  return memory_of(record) + kCallMemory;
}

// Of IPv6, whose is the larger.
using Control = std::array<std::uint8_t, CMSG_SPACE(sizeof(in6_pktinfo))>;

// Where a datagram was sent to, so that its answer comes from there.
IpAddress local_address(msghdr& message) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
      in_pktinfo info;
      std::memcpy(&info, CMSG_DATA(c), sizeof info);
      return ntohl(info.ipi_spec_dst.s_addr);
    }
    if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
      in6_pktinfo info;
      std::memcpy(&info, CMSG_DATA(c), sizeof info);
      return IpAddress::of_bytes(&info.ipi6_addr, sizeof info.ipi6_addr);
    }
  }
  return {};
}

template <class Info>
void set_source(msghdr& message, int level, int type, const Info& info) {
  message.msg_controllen = CMSG_SPACE(sizeof info);
  cmsghdr* c = CMSG_FIRSTHDR(&message);
  c->cmsg_level = level;
  c->cmsg_type = type;
  c->cmsg_len = CMSG_LEN(sizeof info);
  std::memcpy(CMSG_DATA(c), &info, sizeof info);
}

void set_source(msghdr& message, Control& control, IpAddress from) {
  control.fill(0);
  message.msg_control = control.data();
  if (from.is_v4()) {
    in_pktinfo info{};
    info.ipi_spec_dst.s_addr = htonl(from.v4());
    return set_source(message, IPPROTO_IP, IP_PKTINFO, info);
  }
  in6_pktinfo info{};
  const IpAddress::Bytes bytes = from.bytes();
  std::copy(bytes.begin(), bytes.end(), info.ipi6_addr.s6_addr);
  set_source(message, IPPROTO_IPV6, IPV6_PKTINFO, info);
}

}  // namespace

UdpSocket::UdpSocket(ServerShared& server, int fd)
    : server_(server), fd_(fd), scratch_(kBatch * kMaxDatagram) {}

UdpSocket::~UdpSocket() {
  if (fd_ >= 0) ::close(fd_);
}

void UdpSocket::start() {
  server_.loop.watch(fd_, EPOLLIN, [this](std::uint32_t) { receive(); });
}

void UdpSocket::close() {
  server_.loop.unwatch(fd_);
  server_.loop.cancel(std::exchange(timer_, TimerId::kNone));
  ::close(std::exchange(fd_, -1));
  answers_.clear();
  for (auto place = senders_.begin(); place != senders_.end();) {
    place->held.clear();
    place->leave();
    place = place->calls() == 0 ? forget(place) : std::next(place);
  }
}

void UdpSocket::receive() {
  std::array<mmsghdr, kBatch> messages;
  std::array<iovec, kBatch> pieces;
  std::array<SocketAddress, kBatch> peers;
  std::array<Control, kBatch> controls;
  for (int round = 0; round < kBatchesARound; ++round) {
    for (std::size_t i = 0; i < kBatch; ++i) {
      pieces[i] = {scratch_.data() + i * kMaxDatagram, kMaxDatagram};
      messages[i] = {};
      peers[i] = {};
      messages[i].msg_hdr.msg_name = peers[i].get();
      messages[i].msg_hdr.msg_namelen = peers[i].length();
      messages[i].msg_hdr.msg_iov = &pieces[i];
      messages[i].msg_hdr.msg_iovlen = 1;
      messages[i].msg_hdr.msg_control = controls[i].data();
      messages[i].msg_hdr.msg_controllen = controls[i].size();
    }
    int n = ::recvmmsg(fd_, messages.data(), kBatch, MSG_DONTWAIT, nullptr);
    if (n <= 0) return;
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      *peers[i].size() = messages[i].msg_hdr.msg_namelen;
      take({scratch_.data() + i * kMaxDatagram, messages[i].msg_len}, peers[i].endpoint(),
           local_address(messages[i].msg_hdr));
    }
    if (static_cast<std::size_t>(n) < kBatch || fd_ < 0) return;
  }
}

// The sender of that address, which is the last one heard now. Where there are too many, one without calls is
// forgotten; null where there is none.
UdpSocket::Sender* UdpSocket::sender_at(IpAddress address) {
  auto found = places_.find(address);
  if (found != places_.end()) {
    heard(found->second);
    return &*found->second;
  }
  // As many calls are pending of clients at most, and as many of the ensemble.
  if (senders_.size() >= 2 * server_.options.max_udp_calls) {
    for (std::size_t busy = 0; senders_.front().pending() > 0; ++busy) {
      if (busy == senders_.size()) return nullptr;
      heard(senders_.begin());  // so that the next one need not look at it
    }
    forget(senders_.begin());
  }
  Place place = senders_.emplace(senders_.end(), *this, address);
  places_.emplace(address, place);
  server_.admission->join_datagrams(*place, address);
  heard(place);
  if (timer_ == TimerId::kNone) timer_ = server_.loop.after(server_.options.limits.tick, [this] { tick(); });
  return &*place;
}

void UdpSocket::heard(Place place) {
  place->heard_at_tick = ticks_;
  senders_.splice(senders_.end(), senders_, place);
}

UdpSocket::Place UdpSocket::forget(Place place) {
  places_.erase(place->address);
  return senders_.erase(place);
}

void UdpSocket::tick() {
  timer_ = TimerId::kNone;
  ++ticks_;
  for (auto place = senders_.begin();
       place != senders_.end() && place->heard_at_tick + kSilentTicks < ticks_;) {
    place = place->pending() == 0 ? forget(place) : std::next(place);
  }
  if (!senders_.empty()) timer_ = server_.loop.after(server_.options.limits.tick, [this] { tick(); });
}

// Of the room for calls that are pending each address may have as much as it leaves: one alone half of it,
// ten of them a part each and one for who comes next. What may not begin now waits, since its sender would
// ask again only after a second; what has no room is dropped before there is memory for it.
void UdpSocket::take(ByteView bytes, Endpoint peer, IpAddress local) {
  Sender* known = sender_at(peer.address);
  if (known == nullptr) return server_.udp_dropped.add();
  Sender& sender = *known;
  std::size_t& pending = sender.peer() ? pending_of_peers_ : pending_;
  bool room = sender.pending() + pending < server_.options.max_udp_calls &&
              sender.held_memory < server_.options.limits.connection_memory;
  if (!room) return server_.udp_dropped.add();
  ++pending;
  Datagram call{Buffer(bytes), peer, local};
  if (sender.held.empty() && sender.may_take()) {
    spawn(serve(shared_from_this(), server_.shared_from_this(), sender, std::move(call)));
    return;
  }
  sender.held_memory += memory_of_call(call.bytes);
  sender.held.push_back(std::move(call));
  sender.wait();
}

void UdpSocket::resume(Sender& sender) {
  while (!sender.held.empty() && sender.may_take()) {
    Datagram call = std::move(sender.held.front());
    sender.held.pop_front();
    sender.held_memory -= memory_of_call(call.bytes);
    spawn(serve(shared_from_this(), server_.shared_from_this(), sender, std::move(call)));
  }
  if (!sender.held.empty()) sender.wait();
}

// The sender is there as long as it has calls, which `self` keeps.
Task<void> UdpSocket::serve(std::shared_ptr<UdpSocket> self, std::shared_ptr<ServerShared> server,
                            Sender& sender, Datagram call) {
  std::size_t asked = call.bytes.size(), memory = memory_of_call(call.bytes);
  sender.call_begins();
  sender.hold(memory);
  std::optional<Buffer> reply =
      co_await server->dispatcher.dispatch(std::move(call.bytes), call.peer, 0, {.datagram = true});
  --(sender.peer() ? self->pending_of_peers_ : self->pending_);
  sender.release(memory);
  sender.call_ends();
  if (reply && self->fd_ >= 0) {
    self->keep_short(*reply, asked);
    if (self->answers_.empty()) server->flush_later(self);
    self->answers_.push_back({std::move(*reply), call.peer, call.local});
  }
}

void UdpSocket::keep_short(Buffer& reply, std::size_t call) const {
  const std::size_t growth = server_.options.max_udp_growth;
  if (growth == 0 || reply.size() <= growth * call || reply.size() < 4) return;
  server_.udp_withheld.add();
  XdrWriter refusal;
  encode_error(refusal, Xid{load_be<std::uint32_t>(reply.data())}, AcceptStat::kSystemError);
  reply = refusal.take();
}

// Answers that the socket does not take now are dropped, as the network may: the client asks again.
void UdpSocket::flush() {
  std::vector<Datagram> answers = std::exchange(answers_, {});
  std::array<mmsghdr, kBatch> messages;
  std::array<iovec, kBatch> pieces;
  std::array<SocketAddress, kBatch> peers;
  std::array<Control, kBatch> controls;
  for (std::size_t at = 0; at < answers.size();) {
    std::size_t count = 0;
    for (; at < answers.size() && count < kBatch; ++at) {
      Datagram& answer = answers[at];
      if (answer.bytes.size() > kMaxUdpPayload) {
        server_.udp_too_large.add();
        if (server_.log_limits.allow(ServerLine::kReplyTooLong)) {
          log_error("dropped a reply of {} bytes: over a datagram's size to={}", answer.bytes.size(),
                    to_string(answer.peer));
        }
        continue;
      }
      pieces[count] = {answer.bytes.data(), answer.bytes.size()};
      peers[count] = SocketAddress(answer.peer);
      messages[count] = {};
      messages[count].msg_hdr.msg_name = peers[count].get();
      messages[count].msg_hdr.msg_namelen = peers[count].length();
      messages[count].msg_hdr.msg_iov = &pieces[count];
      messages[count].msg_hdr.msg_iovlen = 1;
      set_source(messages[count].msg_hdr, controls[count], answer.local);
      ++count;
    }
    for (std::size_t sent = 0; sent < count;) {
      int n = ::sendmmsg(fd_, messages.data() + sent, static_cast<unsigned>(count - sent), MSG_DONTWAIT);
      if (n <= 0) {
        if (n < 0 && errno == EINTR) continue;
        server_.udp_dropped.add();
        n = 1;  // that one; the others may go elsewhere
      }
      sent += static_cast<std::size_t>(n);
    }
  }
}

}  // namespace slice::rpc
