#include "tests/spec-like/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rpc/bound_socket.h"
#include "rpc/call.h"
#include "rpc/record.h"
#include "wire/nfs3.h"

namespace slice::load {
namespace {

constexpr std::size_t kScratch = 256 << 10;
constexpr std::size_t kLargestReply = 4 << 20;
constexpr int kUdpRoom = 8 << 20;       // bytes of socket buffer, each way
constexpr int kUserTimeoutMs = 10'000;  // unacknowledged bytes that long: the server's host is gone
constexpr Duration kWatch = std::chrono::milliseconds(100);  // between looks for late calls
constexpr Duration kLongestPause = std::chrono::seconds(8);  // between two sendings of a datagram
constexpr Duration kReconnectPause = std::chrono::milliseconds(100);

// The answer that lets TLS begin, with its mark, and where in it the verifier says so.
constexpr std::size_t kStartTls = 4 + 20 + 8 + 4, kStartTlsAt = 4 + 20;

}  // namespace

class Connection::Impl : public std::enable_shared_from_this<Connection::Impl> {
 public:
  Impl(rpc::EpollLoop& loop, Options options)
      : loop_(loop),
        options_(std::move(options)),
        tcp_(options_.transport == Transport::kTcp),
        scratch_(kScratch),
        reader_(kLargestReply),
        next_xid_(static_cast<std::uint32_t>(loop.wall().ns ^ (loop.wall().ns >> 20))) {
    rpc::XdrWriter credential;
    rpc::encode_auth_sys(credential, options_.credential);
    credential_ = credential.take();
  }
  ~Impl() { close(); }

  void start() {
    flush_ = loop_.at_round_end([weak = weak_from_this()] {
      if (auto self = weak.lock()) self->flush();
    });
    open();
    watch();
  }
  void end() {
    loop_.cancel(std::exchange(watch_, TimerId::kNone));
    loop_.cancel(std::exchange(reconnect_, TimerId::kNone));
    close();
  }

  rpc::XdrWriter begin(std::uint32_t program, std::uint32_t version, std::uint32_t procedure) {
    Buffer buffer;
    buffer.reserve(256);
    buffer.resize(rpc::kRecordMark);
    rpc::XdrWriter out(std::move(buffer));
    rpc::encode_call(out, {.xid = Xid{next_xid_++},
                           .program = program,
                           .version = version,
                           .procedure = procedure,
                           .credential_flavor = rpc::kAuthSys,
                           .credential = credential_.view().subspan(8)});
    return out;
  }

  Task<Result<Reply>> call(rpc::XdrWriter begun) {
    Buffer record = begun.take();
    rpc::mark_record(record);
    const auto xid = load_be<std::uint32_t>(record.data() + rpc::kRecordMark);
    Pending pending{.record = std::make_shared<const Buffer>(std::move(record)),
                    .answer = {},
                    .since = loop_.now(),
                    .again = loop_.now() + options_.resend_after,
                    .pause = options_.resend_after};
    auto answer = pending.answer;
    ++counters_.calls;
    send(pending.record);
    pending_.emplace(xid, std::move(pending));
    co_return co_await answer;
  }

  Counters counters_;

 private:
  struct Pending {
    std::shared_ptr<const Buffer> record;
    OneShot<Result<Reply>> answer;
    MonoTime since, again;
    Duration pause;
    bool resent = false;
  };

  void open() {
    fd_ = rpc::socket_for(options_.server.address, (tcp_ ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK);
    if (fd_ < 0) return lost(errno);
    const int on = 1;
    if (tcp_) {
      ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      ::setsockopt(fd_, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof kUserTimeoutMs);
    } else {
      // As much as the system gives; more for root.
      for (int room : {SO_RCVBUF, SO_SNDBUF, SO_RCVBUFFORCE, SO_SNDBUFFORCE}) {
        ::setsockopt(fd_, SOL_SOCKET, room, &kUdpRoom, sizeof kUdpRoom);
      }
    }
    // Servers that export "secure" want a port that only root may have; where there is none, any will do.
    if (::geteuid() == 0) rpc::bind_reserved(fd_);
    const rpc::SocketAddress address(options_.server);
    const int result = ::connect(fd_, address.get(), address.length());
    if (result != 0 && errno != EINPROGRESS) return lost(errno);
    up_ = !tcp_;
    if (tcp_) ++counters_.connects;
    interest_ = tcp_ ? EPOLLIN | EPOLLOUT : EPOLLIN;
    loop_.watch(fd_, interest_, [this](std::uint32_t events) { on_events(events); });
  }

  void close() {
    if (fd_ >= 0) {
      loop_.unwatch(fd_);
      ::close(std::exchange(fd_, -1));
    }
    up_ = blocked_ = false;
    wished_ = false;
    stream_.reset();
    plain_.clear();
    queue_.clear();
    datagrams_.clear();
    reader_ = rpc::RecordReader(kLargestReply);
  }

  void lost(int error) {
    why_ = std::strerror(error);
    close();
    if (reconnect_ != TimerId::kNone) return;
    reconnect_ = loop_.after(kReconnectPause, [this] {
      reconnect_ = TimerId::kNone;
      open();
    });
  }

  void connected() {
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return lost(error);
    if (options_.tls != nullptr && !wished_) return wish_for_tls();
    serve();
  }

  // In clear, by itself: what follows goes through TLS.
  void wish_for_tls() {
    Buffer record(rpc::kRecordMark);
    rpc::XdrWriter out(std::move(record));
    rpc::encode_call(out, {.xid = Xid{next_xid_++},
                           .program = nfs3::kProgram,
                           .version = nfs3::kVersion,
                           .credential_flavor = rpc::kAuthTls});
    record = out.take();
    rpc::mark_record(record);
    wished_ = true;
    watch_writing(false);
    if (::send(fd_, record.data(), record.size(), MSG_NOSIGNAL | MSG_DONTWAIT) !=
        static_cast<ssize_t>(record.size()))
      lost(errno);
  }

  void take_answer_to_wish() {
    std::array<std::uint8_t, kStartTls> record{};
    const ssize_t n = ::recv(fd_, record.data(), record.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) return;
    if (static_cast<std::size_t>(n) != record.size() ||
        std::memcmp(record.data() + kStartTlsAt, "STARTTLS", 8) != 0)
      return lost(EPROTONOSUPPORT);
    stream_ = options_.tls->to_server(fd_, options_.server.address);
    serve();
  }

  void serve() {
    up_ = true;
    for (auto& [xid, pending] : pending_) {
      queue(pending.record);
      pending.resent = counters_.connects > 1;
      if (pending.resent) ++counters_.resent;
    }
    flush();
  }

  void send(const std::shared_ptr<const Buffer>& record) {
    if (!up_) return;  // connected() sends all
    if (tcp_) {
      queue(record);
      flush_.want();
      return;
    }
    datagrams_.push_back(record);
    if (!blocked_) flush_datagrams();
  }

  void queue(const std::shared_ptr<const Buffer>& record) {
    if (stream_ == nullptr) return queue_.push(record);
    plain_.append(record->view());
  }

  // What the system refuses otherwise is sent again like what was lost on its way.
  void flush_datagrams() {
    blocked_ = false;
    for (; !datagrams_.empty(); datagrams_.pop_front()) {
      const ByteView datagram = datagrams_.front()->view().subspan(rpc::kRecordMark);
      const ssize_t n = ::send(fd_, datagram.data(), datagram.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      blocked_ = n < 0 && (errno == EAGAIN || errno == ENOBUFS);
      if (blocked_) break;
    }
    watch_writing(blocked_);
  }

  void watch_writing(bool wanted) {
    const std::uint32_t events = wanted ? EPOLLIN | EPOLLOUT : EPOLLIN;
    if (events != interest_) loop_.change(fd_, interest_ = events);
  }

  void flush() {
    if (stream_ != nullptr && up_) return flush_tls();
    if (!tcp_ || !up_ || (queue_.empty() && !blocked_ && interest_ == EPOLLIN)) return;
    const auto result = queue_.flush(fd_);
    if (result == rpc::SendQueue::Flush::kBroken) return lost(errno);
    blocked_ = result == rpc::SendQueue::Flush::kBlocked;
    watch_writing(blocked_);
  }

  void flush_tls() {
    const iovec all{plain_.data() + plain_done_, plain_.size() - plain_done_};
    const rpc::Written written = stream_->write({&all, 1});
    plain_done_ += written.plain;
    if (plain_done_ == plain_.size()) {
      plain_.clear();
      plain_done_ = 0;
    }
    if (written.outcome == rpc::Written::Outcome::kBroken) return lost(errno);
    blocked_ = written.outcome == rpc::Written::Outcome::kBlocked;
    watch_writing(blocked_);
  }

  void on_events(std::uint32_t events) {
    if (!up_) return wished_ ? take_answer_to_wish() : connected();
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
      while (fd_ >= 0 && (tcp_ ? read_stream() : read_datagram())) {
      }
    }
    if (fd_ >= 0 && (events & EPOLLOUT) != 0) tcp_ ? flush() : flush_datagrams();
  }

  // True where there may be more to read.
  bool read_stream() {
    ByteSpan direct = reader_.direct();
    ByteSpan scratch = scratch_.span();
    iovec into[2] = {{direct.data(), direct.size()}, {scratch.data(), scratch.size()}};
    const bool has_direct = !direct.empty();
    const std::span<const iovec> wanted(has_direct ? into : into + 1, has_direct ? 2 : 1);
    const ssize_t n = rpc::read_stream(fd_, stream_.get(), wanted);
    if (stream_ != nullptr) flush_.want();  // the rest of a handshake, and what waited for it
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (n <= 0) {
      lost(n == 0 ? ECONNRESET : errno);
      return false;
    }
    const auto got = static_cast<std::size_t>(n);
    const std::size_t to_direct = std::min(got, direct.size());
    if (to_direct > 0) reader_.give_direct(to_direct);
    reader_.give(scratch.first(got - to_direct));
    std::vector<Buffer> records;
    Buffer record;
    while (reader_.next(record)) records.push_back(std::move(record));
    const bool broken = reader_.broken();
    for (Buffer& each : records) answered(std::move(each));
    if (broken) lost(EMSGSIZE);
    return !broken && got == direct.size() + scratch.size();
  }

  bool read_datagram() {
    const ssize_t n = ::recv(fd_, scratch_.data(), scratch_.size(), MSG_DONTWAIT);
    if (n < 0) return errno == ECONNREFUSED;  // an ICMP message: the call is sent again
    answered(Buffer(scratch_.view().first(static_cast<std::size_t>(n))));
    return true;
  }

  void answered(Buffer record) {
    if (record.size() < 4) return;
    auto found = pending_.find(load_be<std::uint32_t>(record.data()));
    if (found == pending_.end()) return;  // a second answer to a call that was sent twice
    Pending pending = std::move(found->second);
    pending_.erase(found);
    auto response = rpc::open_response(std::move(record), 0);
    if (!response) {
      pending.answer.set(fail(std::move(response).error()));
    } else {
      pending.answer.set(Reply{.response = std::move(*response), .resent = pending.resent});
    }
  }

  void watch() {
    std::vector<std::uint32_t> late;
    for (auto& [xid, pending] : pending_) {
      if (loop_.now() - pending.since > options_.patience) {
        late.push_back(xid);
      } else if (!tcp_ && loop_.now() >= pending.again) {
        send(pending.record);
        pending.resent = true;
        ++counters_.resent;
        pending.pause = std::min(2 * pending.pause, kLongestPause);
        pending.again = loop_.now() + pending.pause;
      }
    }
    for (std::uint32_t xid : late) {
      auto node = pending_.extract(xid);
      if (!node) continue;
      node.mapped().answer.set(fail(up_ ? Errc::kTimedOut : Errc::kUnavailable, "{} {}{}",
                                    to_string(options_.server),
                                    up_ ? "did not answer in time" : "cannot be reached: ", up_ ? "" : why_));
    }
    watch_ = loop_.after(kWatch, [this] { watch(); });
  }

  rpc::EpollLoop& loop_;
  Options options_;
  const bool tcp_;
  int fd_ = -1;
  bool up_ = false, blocked_ = false;
  std::uint32_t interest_ = 0;
  const char* why_ = "";
  Buffer scratch_, credential_;
  rpc::RecordReader reader_;
  rpc::SendQueue queue_;  // TCP, in clear
  bool wished_ = false;   // for TLS
  std::unique_ptr<rpc::TlsStream> stream_;
  Buffer plain_;  // for it
  std::size_t plain_done_ = 0;
  Loop::RoundEnd flush_;
  std::deque<std::shared_ptr<const Buffer>> datagrams_;  // UDP, not yet sent
  std::uint32_t next_xid_;
  std::unordered_map<std::uint32_t, Pending> pending_;
  TimerId reconnect_ = TimerId::kNone, watch_ = TimerId::kNone;
};

Connection::Connection(rpc::EpollLoop& loop, Options options)
    : impl_(std::make_shared<Impl>(loop, std::move(options))) {
  impl_->start();
}
Connection::~Connection() {
  impl_->end();
}
rpc::XdrWriter Connection::begin(std::uint32_t program, std::uint32_t version, std::uint32_t procedure) {
  return impl_->begin(program, version, procedure);
}
Task<Result<Connection::Reply>> Connection::call(rpc::XdrWriter begun) {
  return impl_->call(std::move(begun));
}
const Connection::Counters& Connection::counters() const {
  return impl_->counters_;
}

}  // namespace slice::load
