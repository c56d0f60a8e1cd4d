#include "rpc/client.h"

#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "common/log.h"
#include "common/trace.h"
#include "rpc/call.h"
#include "rpc/record.h"
#include "rpc/server_internal.h"
#include "rpc/session_reader.h"

namespace slice::rpc {
namespace {

constexpr std::size_t kScratch = 256 << 10;
constexpr Duration kConnectPatience = std::chrono::seconds(3);
constexpr Duration kFirstPause = std::chrono::milliseconds(20);  // between attempts to connect
constexpr Duration kLongestPause = std::chrono::milliseconds(200);
constexpr std::size_t kMuchPending = 128 << 10;  // bytes: 10 ms at 100 Mbit/s
constexpr int kUserTimeoutMs = 10'000;           // unacknowledged bytes that long: the peer's host is gone

}  // namespace

class SocketChannel::Impl : public std::enable_shared_from_this<SocketChannel::Impl> {
 public:
  Impl(EpollLoop& loop, Options options)
      : loop_(loop), options_(std::move(options)), scratch_(kScratch), next_xid_(first_xid(loop)) {}
  ~Impl() {
    for (auto& [to, lanes] : peers_) {
      for (auto& peer : lanes) {
        if (peer) peer->abandon();
      }
    }
    for (auto& peer : moved_) peer->abandon();
  }
  Task<Result<Response>> call(Request request);
  void moved(Endpoint from, Endpoint to);
  void drop_moved();
  void round_end() {
    flushing_.swap(dirty_);
    for (Peer* peer : flushing_) peer->flush();
    flushing_.clear();
  }
  std::uint64_t connects_ = 0;
  Loop::RoundEnd flush_;  // round_end()

 private:
  struct Pending {
    std::shared_ptr<const Buffer> record;
    OneShot<Result<Response>> answer;
    MonoTime since;
    Duration refused_patience;
    TimerId timer = TimerId::kNone;
  };

  // A connection to one endpoint, and the calls that wait for its answers.
  class Peer {
   public:
    Peer(Impl& owner, Endpoint at) : owner_(owner), at_(at), reader_(owner.options_.max_record) {}
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;

    std::size_t pending_bytes() const { return pending_bytes_; }
    bool full(std::size_t more) const {
      return pending_.size() >= owner_.options_.max_calls_per_connection ||
             pending_bytes_ + more > owner_.options_.max_queued_per_connection;
    }
    void send(Xid xid, Pending pending);
    void timed_out(Xid xid);
    bool idle() const { return pending_.empty(); }
    // Where nothing waits for it any more: closes, so that it may go.
    bool drop() {
      if (pending_.empty()) close();
      return pending_.empty();
    }
    void move_to(Endpoint at);
    void flush();
    void abandon() {
      for (auto& [xid, pending] : pending_) owner_.loop_.cancel(pending.timer);
      close();
    }

   private:
    enum class State { kClosed, kConnecting, kUp };
    void connect();
    void connected();
    std::unique_ptr<Session> new_session() const;
    void unreadable();
    void refused();
    void broken(int error);
    void give_up_refused();
    void close();
    void on_events(std::uint32_t events);
    bool read_some();
    void answered(Buffer record);
    void set_interest(std::uint32_t events);
    void finish(Xid xid, Result<Response> result);

    Impl& owner_;
    Endpoint at_;
    State state_ = State::kClosed;
    int fd_ = -1;
    std::uint32_t interest_ = 0;
    bool dirty_ = false;
    bool blocked_ = false;
    bool answered_ = false;  // some call, over this connection
    SessionReader reader_;
    SendQueue queue_;
    std::map<std::uint32_t, Pending> pending_;  // by xid: sent again in the order of first sending
    std::size_t pending_bytes_ = 0;
    MonoTime last_heard_;
    Duration pause_ = kFirstPause;
    std::optional<MonoTime> refused_since_;  // each attempt to connect
    TimerId reconnect_ = TimerId::kNone;
    TimerId patience_ = TimerId::kNone;
  };

  static std::uint32_t first_xid(EpollLoop& loop) {
    auto ns = static_cast<std::uint64_t>(loop.wall().ns);
    return static_cast<std::uint32_t>(ns ^ (ns >> 20));  // restarts must not repeat the last one's
  }

  EpollLoop& loop_;
  Options options_;
  Buffer scratch_;
  std::uint32_t next_xid_;
  // What travels together.
  enum class Kind { kShort, kData, kBackground };
  static Kind kind_of(const Request& request) {
    if (request.urgency == Urgency::kBackground) return Kind::kBackground;
    return request.long_answer || request.arguments.size() > kShort ? Kind::kData : Kind::kShort;
  }
  // The connections of a kind, opened as they are needed.
  using Lanes = std::array<std::unique_ptr<Peer>, kDataConnections>;
  Peer& peer_for(const Request& request);
  std::map<std::pair<Endpoint, Kind>, Lanes> peers_;
  // Of endpoints whose servers went elsewhere, with calls that are sent there: until those have ended.
  std::vector<std::unique_ptr<Peer>> moved_;
  std::vector<Peer*> dirty_, flushing_;  // with calls to send at the end of the round
  LogLimiter log_limit_{1};
};

void SocketChannel::Impl::Peer::send(Xid xid, Pending pending) {
  pending_bytes_ += pending.record->size();
  if (state_ == State::kUp) {
    queue_.push(pending.record);
    if (!dirty_ && !blocked_) {
      dirty_ = true;
      owner_.dirty_.push_back(this);
      owner_.flush_.want();
    }
  }
  pending_.emplace(xid.value, std::move(pending));
  if (state_ == State::kClosed && reconnect_ == TimerId::kNone) connect();
}

void SocketChannel::Impl::Peer::connect() {
  fd_ = socket_for(at_.address, SOCK_STREAM | SOCK_NONBLOCK);
  if (fd_ < 0) {
    broken(errno);
    return;
  }
  int on = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd_, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof kUserTimeoutMs);
  const SocketAddress address(at_);
  state_ = State::kConnecting;
  int result = ::connect(fd_, address.get(), address.length());
  if (result != 0 && errno != EINPROGRESS) {
    broken(errno);
    return;
  }
  interest_ = EPOLLOUT;
  owner_.loop_.watch(fd_, interest_, [this](std::uint32_t events) { on_events(events); });
  patience_ = owner_.loop_.after(kConnectPatience, [this] { broken(ETIMEDOUT); });
}

void SocketChannel::Impl::Peer::connected() {
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) {
    broken(error);
    return;
  }
  owner_.loop_.cancel(std::exchange(patience_, TimerId::kNone));
  state_ = State::kUp;
  refused_since_.reset();
  ++owner_.connects_;
  answered_ = false;
  last_heard_ = owner_.loop_.now();
  reader_ = SessionReader(owner_.options_.max_record, new_session());
  for (auto& [xid, pending] : pending_) queue_.push(pending.record);
  set_interest(EPOLLIN);
  flush();
}

// Calls under way stay: they are sent again over the next connection, as long as their time lasts; at once
// where this one was of use. A peer that accepts and breaks, or talks nonsense, is tried with growing pauses.
void SocketChannel::Impl::Peer::broken(int error) {
  bool was_up = state_ == State::kUp;
  if (error == EPROTO && owner_.log_limit_.allow()) {
    log_warning("no TLS with {}: {}", to_string(at_), reader_.refusal());
  }
  close();
  log_debug("connection to {} {}: {}", to_string(at_), was_up ? "broke" : "failed", std::strerror(error));
  if (was_up && answered_) pause_ = Duration(0);
  if (error != ECONNREFUSED) {
    refused_since_.reset();
  } else if (!refused_since_) {
    refused_since_ = owner_.loop_.now();
  }
  give_up_refused();
  if (pending_.empty() || state_ != State::kClosed || reconnect_ != TimerId::kNone) return;
  Duration pause = pause_;
  pause_ = std::clamp(pause_ * 2, kFirstPause, kLongestPause);
  reconnect_ = owner_.loop_.after(pause, [this] {
    reconnect_ = TimerId::kNone;
    if (state_ == State::kClosed && !pending_.empty()) connect();
  });
}

// Nobody listens there for longer than these calls wait for that.
void SocketChannel::Impl::Peer::give_up_refused() {
  if (!refused_since_) return;
  const MonoTime now = owner_.loop_.now();
  std::vector<Xid> over;
  for (const auto& [xid, pending] : pending_) {
    const bool limited = pending.refused_patience > Duration(0);
    if (limited && now - std::max(*refused_since_, pending.since) >= pending.refused_patience)
      over.emplace_back(xid);
  }
  for (Xid xid : over)
    finish(xid, Result<Response>(fail(Errc::kUnavailable, "{} refuses connections", to_string(at_))));
}

void SocketChannel::Impl::Peer::close() {
  owner_.loop_.cancel(std::exchange(reconnect_, TimerId::kNone));
  owner_.loop_.cancel(std::exchange(patience_, TimerId::kNone));
  if (fd_ >= 0) {
    owner_.loop_.unwatch(fd_);
    ::close(std::exchange(fd_, -1));
  }
  state_ = State::kClosed;
  blocked_ = false;
  queue_.clear();
  reader_ = SessionReader(owner_.options_.max_record);
}

std::unique_ptr<Session> SocketChannel::Impl::Peer::new_session() const {
  const KeyRing* keys = owner_.options_.keys;
  if (keys == nullptr) return nullptr;
  auto session = Session::to_server(*keys);
  if (keys->tls() != nullptr) session->over(keys->tls()->to_server(fd_, at_.address));
  return session;
}

void SocketChannel::Impl::Peer::set_interest(std::uint32_t events) {
  if (interest_ == events) return;
  interest_ = events;
  owner_.loop_.change(fd_, events);
}

void SocketChannel::Impl::Peer::move_to(Endpoint at) {
  close();
  std::erase(owner_.dirty_, this);
  dirty_ = false;
  at_ = at;
  refused_since_.reset();
  pause_ = kFirstPause;
  connect();
}

void SocketChannel::Impl::Peer::flush() {
  dirty_ = false;
  if (state_ != State::kUp) return;
  SendQueue::Flush result = queue_.flush(fd_, reader_.session());
  if (result == SendQueue::Flush::kBroken) {
    broken(errno);
    return;
  }
  blocked_ = result == SendQueue::Flush::kBlocked;
  set_interest(blocked_ ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void SocketChannel::Impl::Peer::on_events(std::uint32_t events) {
  if (state_ == State::kConnecting) {
    connected();
    return;
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
    while (state_ == State::kUp && read_some()) {
    }
  }
  if (state_ == State::kUp && (events & EPOLLOUT) != 0) flush();
}

bool SocketChannel::Impl::Peer::read_some() {
  const bool greeting =
      reader_.session() != nullptr && reader_.session()->state() == Session::State::kGreeting;
  ByteSpan direct = reader_.direct();
  ByteSpan scratch = owner_.scratch_.span();
  scratch = scratch.first(std::min(scratch.size(), reader_.room_behind()));
  iovec into[2] = {{direct.data(), direct.size()}, {scratch.data(), scratch.size()}};
  bool has_direct = !direct.empty();
  ssize_t n = reader_.read(fd_, std::span<const iovec>(into).subspan(has_direct ? 0 : 1));
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    if (greeting) flush();
    return false;
  }
  if (n <= 0) {
    broken(n == 0 ? ECONNRESET : errno);
    return false;
  }
  auto got = static_cast<std::size_t>(n);
  std::size_t to_direct = std::min(got, direct.size());
  if (to_direct > 0) reader_.give_direct(to_direct);
  reader_.give(scratch.first(got - to_direct));
  last_heard_ = owner_.loop_.now();
  // All records out of the scratch first: an answer resumes its caller, who may do anything.
  std::vector<Buffer> records;
  Buffer record;
  while (reader_.next(record)) records.push_back(std::move(record));
  bool is_broken = reader_.broken();
  for (Buffer& each : records) answered(std::move(each));
  if (state_ != State::kUp) return false;
  if (is_broken) {
    unreadable();
    return false;
  }
  if (greeting) flush();
  return state_ == State::kUp && got == direct.size() + scratch.size();
}

void SocketChannel::Impl::Peer::unreadable() {
  Session* session = reader_.session();
  if (session != nullptr && session->state() == Session::State::kUnknownKey) return refused();
  if (session != nullptr && session->over()) {
    log_warning("closed the connection to {}: what came is not what it sent", to_string(at_));
    return broken(EBADMSG);
  }
  log_warning("closed the connection to {}: a reply over {} bytes", to_string(at_),
              owner_.options_.max_record);
  broken(EMSGSIZE);
}

// It has another key: nothing that waits for it can be answered.
void SocketChannel::Impl::Peer::refused() {
  close();
  while (!pending_.empty()) finish(Xid{pending_.begin()->first}, tl::unexpected(other_key()));
}

void SocketChannel::Impl::Peer::answered(Buffer record) {
  if (record.size() < 4) return;
  Xid xid{load_be<std::uint32_t>(record.data())};
  answered_ = answered_ || pending_.contains(xid.value);
  finish(xid, open_response(std::move(record), 0));
}

// An answer to a call that has timed out is nobody's.
void SocketChannel::Impl::Peer::finish(Xid xid, Result<Response> result) {
  auto found = pending_.find(xid.value);
  if (found == pending_.end()) return;
  Pending pending = std::move(found->second);
  pending_.erase(found);
  pending_bytes_ -= pending.record->size();
  owner_.loop_.cancel(pending.timer);
  if (pending_.empty() && !owner_.moved_.empty()) owner_.drop_moved();
  pending.answer.set(std::move(result));
}

void SocketChannel::Impl::Peer::timed_out(Xid xid) {
  auto found = pending_.find(xid.value);
  if (found == pending_.end()) return;
  bool up = state_ == State::kUp;
  // A connection on which nothing was heard all that time may lead nowhere: the next call takes a new one.
  bool silent = up && last_heard_ < found->second.since;
  auto error = fail(up ? Errc::kTimedOut : Errc::kUnavailable, "{} {}", to_string(at_),
                    up ? "did not answer in time" : "cannot be reached");
  finish(xid, Result<Response>(std::move(error)));
  if (silent && state_ == State::kUp) broken(ETIMEDOUT);
}

// The one with the least to send and to be answered; one more is opened where that is much.
SocketChannel::Impl::Peer& SocketChannel::Impl::peer_for(const Request& request) {
  const Kind kind = kind_of(request);
  Lanes& lanes = peers_[{request.to, kind}];
  const std::size_t most = kind == Kind::kData ? lanes.size() : 1;
  std::unique_ptr<Peer>* best = nullptr;
  for (std::size_t i = 0; i < most; ++i) {
    if (!lanes[i]) {
      if (best == nullptr || (*best)->pending_bytes() > kMuchPending) {
        lanes[i] = std::make_unique<Peer>(*this, request.to);
        best = &lanes[i];
      }
      break;
    }
    if (best == nullptr || lanes[i]->pending_bytes() < (*best)->pending_bytes()) best = &lanes[i];
  }
  return **best;
}

void SocketChannel::Impl::moved(Endpoint from, Endpoint to) {
  std::vector<Peer*> moving;
  for (auto& [at, lanes] : peers_) {
    if (at.first != from) continue;
    for (auto& peer : lanes) {
      if (!peer || peer->idle()) continue;
      moving.push_back(peer.get());
      moved_.push_back(std::move(peer));
    }
  }
  for (Peer* peer : moving) peer->move_to(to);
}

// Through the loop: nothing of one that goes is on the stack then.
void SocketChannel::Impl::drop_moved() {
  loop_.post([weak = weak_from_this()] {
    if (auto self = weak.lock()) std::erase_if(self->moved_, [](const auto& peer) { return peer->drop(); });
  });
}

Task<Result<Response>> SocketChannel::Impl::call(Request request) {
  Peer& to = peer_for(request);
  if (to.full(request.arguments.size())) {
    co_return fail(Errc::kUnavailable, "too many calls wait for {}", to_string(request.to));
  }
  Xid xid{next_xid_++};
  Caller caller{.member = options_.keys != nullptr,
                .sender = options_.sender,
                .generation = options_.generation ? options_.generation() : Generation{}};
  Buffer record = encode_request(request, xid, caller, kRecordMark);
  SLICE_CO_RETURN_IF_ERROR(check_call_size(request, record.size() - kRecordMark));
  mark_record(record);
  TraceScope step(co_await current_trace(), step_of(request, xid));
  Pending pending{.record = std::make_shared<const Buffer>(std::move(record)),
                  .since = loop_.now(),
                  .refused_patience = request.refused_patience};
  auto answer = pending.answer;
  pending.timer = loop_.after(request.timeout, [&to, xid] { to.timed_out(xid); });
  to.send(xid, std::move(pending));
  co_return co_await answer;
}

SocketChannel::SocketChannel(EpollLoop& loop, Options options)
    : impl_(std::make_shared<Impl>(loop, std::move(options))) {
  impl_->flush_ = loop.at_round_end([weak = std::weak_ptr(impl_)] {
    if (auto impl = weak.lock()) impl->round_end();
  });
}
SocketChannel::~SocketChannel() = default;
Task<Result<Response>> SocketChannel::call(Request request) {
  return impl_->call(std::move(request));
}
void SocketChannel::moved(Endpoint from, Endpoint to) {
  impl_->moved(from, to);
}
std::uint64_t SocketChannel::connects() const {
  return impl_->connects_;
}

}  // namespace slice::rpc
