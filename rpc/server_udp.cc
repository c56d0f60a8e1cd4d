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

using Control = std::array<std::uint8_t, CMSG_SPACE(sizeof(in_pktinfo))>;

// Where a datagram was sent to, so that its answer comes from there.
in_addr local_address(msghdr& message) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != IPPROTO_IP || c->cmsg_type != IP_PKTINFO) continue;
    in_pktinfo info;
    std::memcpy(&info, CMSG_DATA(c), sizeof info);
    return info.ipi_spec_dst;
  }
  return {};
}

void set_source(msghdr& message, Control& control, in_addr from) {
  control.fill(0);
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* c = CMSG_FIRSTHDR(&message);
  c->cmsg_level = IPPROTO_IP;
  c->cmsg_type = IP_PKTINFO;
  c->cmsg_len = CMSG_LEN(sizeof(in_pktinfo));
  in_pktinfo info{};
  info.ipi_spec_dst = from;
  std::memcpy(CMSG_DATA(c), &info, sizeof info);
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
  ::close(std::exchange(fd_, -1));
  answers_.clear();
}

void UdpSocket::receive() {
  std::array<mmsghdr, kBatch> messages;
  std::array<iovec, kBatch> pieces;
  std::array<sockaddr_in, kBatch> peers;
  std::array<Control, kBatch> controls;
  for (int round = 0; round < kBatchesARound; ++round) {
    for (std::size_t i = 0; i < kBatch; ++i) {
      pieces[i] = {scratch_.data() + i * kMaxDatagram, kMaxDatagram};
      messages[i] = {};
      messages[i].msg_hdr.msg_name = &peers[i];
      messages[i].msg_hdr.msg_namelen = sizeof peers[i];
      messages[i].msg_hdr.msg_iov = &pieces[i];
      messages[i].msg_hdr.msg_iovlen = 1;
      messages[i].msg_hdr.msg_control = controls[i].data();
      messages[i].msg_hdr.msg_controllen = controls[i].size();
    }
    int n = ::recvmmsg(fd_, messages.data(), kBatch, MSG_DONTWAIT, nullptr);
    if (n <= 0) return;
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      if (calls_ >= server_.options.max_udp_calls) {
        server_.udp_dropped.add();
        continue;
      }
      Buffer record(ByteView(scratch_.data() + i * kMaxDatagram, messages[i].msg_len));
      spawn(serve(shared_from_this(), server_.shared_from_this(), std::move(record), endpoint_of(peers[i]),
                  local_address(messages[i].msg_hdr)));
    }
    if (static_cast<std::size_t>(n) < kBatch || fd_ < 0) return;
  }
}

Task<void> UdpSocket::serve(std::shared_ptr<UdpSocket> self, std::shared_ptr<ServerShared> server,
                            Buffer record, Endpoint peer, in_addr local) {
  ++self->calls_;
  std::size_t asked = record.size();
  std::optional<Buffer> reply =
      co_await server->dispatcher.dispatch(std::move(record), peer, 0, {.datagram = true});
  --self->calls_;
  if (reply && self->fd_ >= 0) {
    self->keep_short(*reply, asked);
    if (self->answers_.empty()) server->flush_later(self);
    self->answers_.push_back({std::move(*reply), peer, local});
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
  std::vector<Answer> answers = std::exchange(answers_, {});
  std::array<mmsghdr, kBatch> messages;
  std::array<iovec, kBatch> pieces;
  std::array<sockaddr_in, kBatch> peers;
  std::array<Control, kBatch> controls;
  for (std::size_t at = 0; at < answers.size();) {
    std::size_t count = 0;
    for (; at < answers.size() && count < kBatch; ++at) {
      Answer& answer = answers[at];
      if (answer.bytes.size() > kMaxUdpPayload) {
        server_.udp_too_large.add();
        if (server_.log_limit.allow()) {
          log_error("dropped a reply of {} bytes: over a datagram's size to={}", answer.bytes.size(),
                    to_string(answer.to));
        }
        continue;
      }
      pieces[count] = {answer.bytes.data(), answer.bytes.size()};
      peers[count] = socket_address(answer.to);
      messages[count] = {};
      messages[count].msg_hdr.msg_name = &peers[count];
      messages[count].msg_hdr.msg_namelen = sizeof peers[count];
      messages[count].msg_hdr.msg_iov = &pieces[count];
      messages[count].msg_hdr.msg_iovlen = 1;
      set_source(messages[count].msg_hdr, controls[count], answer.from);
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
