#include "tests/fuzz/port.h"

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "rpc/session.h"

namespace slice::fuzz {
namespace {

constexpr std::size_t kDatagrams = 48, kRecords = 64;  // of a batch
constexpr std::size_t kReceiveBuffer = 1 << 17;
constexpr double kRecordPatience = 0.05;  // seconds
constexpr std::uint32_t kLast = 0x80000000;

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

sockaddr_in address_of(Address at) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(at.port);
  address.sin_addr.s_addr = htonl(at.ipv4);
  return address;
}

class Descriptor {
 public:
  Descriptor() = default;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }
  int get() const { return fd_; }
  void take(int fd) {
    close();
    if ((fd_ = fd) < 0) fail("socket");
  }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

// --- UDP ------------------------------------------------------------------------------------------------

class UdpPort : public Port {
 public:
  UdpPort(std::string name, Address to, const CaseMaker& maker)
      : Port(std::move(name)), maker_(maker), to_(to) {
    open();
  }

  bool takes(const std::vector<Case>& batch, const Case&) const override { return batch.size() < kDatagrams; }
  int descriptor() const override { return socket_.get(); }
  short events() const override { return POLLIN; }

  void work(double now) override {
    receive();
    if (idle() || now - asked_ < kAskAgain) return;
    ++counters_.asked_again;
    asked_ = now;
    ask();
  }

 protected:
  void send_batch() override {
    for (const Case& each : batch_) send(each);
    ask();
  }
  // A datagram that is too long, or that this host's kernel refuses, is no case of the other side's.
  virtual void send(const Case& one) {
    (void)::send(socket_.get(), one.message.data(), one.message.size(), MSG_NOSIGNAL);
  }
  const CaseMaker& maker_;
  Address to_;

 private:
  void open() {
    socket_.take(::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int room = 4 << 20;
    (void)setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
    const sockaddr_in address = address_of(to_);
    if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      fail("connect");
  }
  void ask() {
    const std::string call = CaseMaker::null_call(null_xid());
    (void)::send(socket_.get(), call.data(), call.size(), MSG_NOSIGNAL);
  }
  void receive() {
    for (;;) {
      const ssize_t size = ::recv(socket_.get(), received_.data(), received_.size(), 0);
      if (size < 0 && errno == EINTR) continue;
      if (size < 0 && errno == ECONNREFUSED) continue;  // an ICMP message: nobody listens; silence will tell
      if (size < 0) return;
      const std::string reply(received_.data(), static_cast<std::size_t>(size));
      if (idle() || get32(reply, 0) != null_xid()) {
        ++counters_.replies;
      } else {
        done();
      }
    }
  }

  Descriptor socket_;
  std::vector<char> received_ = std::vector<char>(kReceiveBuffer);
};

// --- frames ---------------------------------------------------------------------------------------------

class FramePort : public UdpPort {
 public:
  FramePort(std::string name, Address to, const CaseMaker& maker, const Link& link)
      : UdpPort(std::move(name), to, maker), link_(link) {
    raw_.take(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
    sockaddr_ll at{};
    at.sll_family = AF_PACKET;
    at.sll_ifindex = static_cast<int>(if_nametoindex(link.name.c_str()));
    if (at.sll_ifindex == 0 || ::bind(raw_.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0)
      fail("bind");
    ifreq own{};
    std::strncpy(own.ifr_name, link.name.c_str(), sizeof own.ifr_name - 1);
    if (::ioctl(raw_.get(), SIOCGIFHWADDR, &own) != 0) fail("hardware address");
    own_.assign(own.ifr_hwaddr.sa_data, ETH_ALEN);
  }

 protected:
  void send(const Case& one) override {
    std::string frame = link_.gateway + own_;
    if (one.number % 16 == 0) frame += std::string("\x81\x00\x00\x05", 4);
    const IpAddress source = link_.sources[one.number / 3 % link_.sources.size()];
    const bool says_v4 = source.is_v4() != (one.number % 64 == 1);  // not always what it is
    frame += says_v4 ? std::string("\x08\x00", 2) : std::string("\x86\xdd", 2);
    frame += maker_.packet(one, source, source.is_v4() ? link_.v4 : link_.v6);
    if (one.number % 32 == 2) frame.resize(std::max<std::size_t>(ETH_HLEN, frame.size() - one.number % 28));
    (void)::send(raw_.get(), frame.data(), frame.size(), 0);
  }

 private:
  Link link_;
  Descriptor raw_;
  std::string own_;
};

// --- TCP ------------------------------------------------------------------------------------------------

class TcpPort : public Port {
 public:
  TcpPort(std::string name, Address to, const CaseMaker& maker, const rpc::KeyRing* keys)
      : Port(std::move(name)), maker_(maker), to_(to), keys_(keys) {}

  bool takes(const std::vector<Case>& batch, const Case& next) const override {
    return batch.empty() || (batch.size() < kRecords && !next.alone && !batch.back().alone);
  }
  int descriptor() const override { return socket_.get(); }
  short events() const override { return static_cast<short>(POLLIN | (sent_ < out_.size() ? POLLOUT : 0)); }

  void work(double now) override {
    if (socket_.get() < 0) return;
    if (!flush() || !receive()) return closed();
    if (idle()) return;
    // A record that is not whole waits for its rest, which will not come: that is told to the process, which
    // then ends the connection.
    if (batch_.front().alone && !told_end_ && sent_ == out_.size() && now - begun_ > kRecordPatience) {
      told_end_ = true;
      (void)::shutdown(socket_.get(), SHUT_WR);
    }
    if (now - asked_ < kAskAgain) return;
    ++counters_.asked_again;
    asked_ = now;
    ask_anew();
  }

 private:
  static std::string record_of(const std::string& message) {
    std::string record;
    append32(record, kLast | static_cast<std::uint32_t>(message.size()));
    return record + message;
  }
  void send_batch() override {
    if (socket_.get() < 0) connect();
    out_.erase(0, sent_);
    sent_ = 0;
    for (const Case& each : batch_) out_ += maker_.framed(each);
    out_ += record_of(CaseMaker::null_call(null_xid()));
    (void)flush();
  }
  void connect() {
    socket_.take(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const sockaddr_in address = address_of(to_);
    if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
        errno != EINPROGRESS) {
      fail("connect");
    }
    out_.clear();
    in_.clear();
    sent_ = skip_ = 0;
    told_end_ = false;
    if (keys_ != nullptr) session_ = rpc::Session::to_server(*keys_);
  }
  void disconnect() {
    socket_.close();
    out_.clear();
    in_.clear();
    sent_ = skip_ = 0;
  }
  // The process ended the connection, which for a case that stands alone is an answer.
  void closed() {
    ++counters_.closed;
    done_by_closing();
  }
  void done_by_closing() {
    const bool alone = !idle() && batch_.front().alone;
    disconnect();
    if (alone) return done();
    if (!idle()) ask_anew();
  }
  // Of a batch whose connection ended all went out: a NULL call on a new connection tells that the process
  // lives.
  void ask_anew() {
    connect();
    out_ = record_of(CaseMaker::null_call(null_xid()));
  }
  bool flush() {
    using Outcome = rpc::Written::Outcome;
    while (sent_ < out_.size()) {
      iovec rest{out_.data() + sent_, out_.size() - sent_};
      const rpc::Written done =
          session_ ? session_->write(socket_.get(), {&rest, 1}) : rpc::write_plain(socket_.get(), {&rest, 1});
      sent_ += done.plain;
      if (done.outcome == Outcome::kBroken) return errno == ENOTCONN;
      if (done.outcome != Outcome::kAll) return true;
    }
    out_.clear();
    sent_ = 0;
    return true;
  }
  bool receive() {
    for (;;) {
      const ssize_t size = ::recv(socket_.get(), received_.data(), received_.size(), 0);
      if (size == 0) return false;
      if (size < 0) return errno == EAGAIN || errno == ENOTCONN || errno == EINTR;
      if (!open(received_.data(), static_cast<std::size_t>(size))) return false;
    }
  }
  // Without the session's frames and greeting; false where it is over.
  bool open(const char* bytes, std::size_t size) {
    while (session_ && size > 0) {
      const ByteView raw = as_bytes({bytes, size});
      std::size_t taken = 0;
      if (session_->opener() == nullptr) {
        taken = session_->greet(raw);
        if (session_->over() || !flush()) return false;
      } else {
        const rpc::Opener::Step step = session_->opener()->step(raw);
        taken = step.taken;
        if (session_->opener()->broken()) return false;
        if (step.plain) take(bytes, taken);
      }
      bytes += taken;
      size -= taken;
    }
    if (!session_) take(bytes, size);
    return true;
  }
  // Replies' first words; the rest is passed over.
  void take(const char* bytes, std::size_t size) {
    while (size > 0) {
      const std::size_t passed = std::min(skip_, size);
      skip_ -= passed;
      bytes += passed;
      size -= passed;
      while (size > 0 && skip_ == 0 && in_.size() < 8) {
        in_ += *bytes++;
        --size;
      }
      if (in_.size() < 8) continue;
      const std::uint32_t length = get32(in_, 0) & ~kLast, xid = get32(in_, 4);
      in_.clear();
      skip_ = length < 4 ? 0 : length - 4;
      if (!idle() && xid == null_xid()) {
        done();
      } else {
        ++counters_.replies;
      }
    }
  }

  const CaseMaker& maker_;
  Address to_;
  const rpc::KeyRing* keys_;
  std::unique_ptr<rpc::Session> session_;  // of the connection; null: none
  Descriptor socket_;
  std::string out_, in_;
  std::size_t sent_ = 0, skip_ = 0;
  bool told_end_ = false;
  std::vector<char> received_ = std::vector<char>(kReceiveBuffer);
};

}  // namespace

void Port::begin(std::vector<Case> batch, double now) {
  batch_ = std::move(batch);
  begun_ = asked_ = now;
  ++batches_;
  send_batch();
}

std::unique_ptr<Port> tcp_port(std::string name, Address to, const CaseMaker& maker,
                               const rpc::KeyRing* keys) {
  return std::make_unique<TcpPort>(std::move(name), to, maker, keys);
}
std::unique_ptr<Port> udp_port(std::string name, Address to, const CaseMaker& maker) {
  return std::make_unique<UdpPort>(std::move(name), to, maker);
}
std::unique_ptr<Port> frame_port(std::string name, Address to, const CaseMaker& maker, const Link& link) {
  return std::make_unique<FramePort>(std::move(name), to, maker, link);
}

}  // namespace slice::fuzz
