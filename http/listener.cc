#include "http/listener.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "rpc/bound_socket.h"

namespace slice::http {
namespace {

constexpr int kAcceptsARound = 16;
constexpr std::size_t kReadAtOnce = 4096, kWriteAtOnce = 256 << 10;  // bytes; then others get their turn
constexpr Duration kLook = std::chrono::milliseconds(250), kPause = std::chrono::milliseconds(100);
constexpr std::array<const char*, 3> kEnds{"slow_request", "slow_reader", "crowded"};

// Pages are made of what this server gives alone, are what their type says, are in no frame of another, and
// are not kept.
constexpr std::string_view kForBrowsers =
    "Content-Security-Policy: default-src 'self'; frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n";

std::string head_of(const Page& page) {
  return fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}{}Connection: close\r\n\r\n",
      static_cast<unsigned>(page.status), reason_of(page.status), page.content_type, page.body->size(),
      page.status == Status::kMethodNotAllowed ? "Allow: GET\r\n" : "", kForBrowsers);
}

Page refusal(Status status) {
  return {status, "text/plain; charset=utf-8",
          std::make_shared<const std::string>(fmt::format("{}\n", reason_of(status)))};
}

}  // namespace

struct Listener::Connection {
  enum class State : std::uint8_t { kReading, kWriting, kEnding };
  int fd = -1;
  rpc::Endpoint peer;
  State state = State::kReading;
  MonoTime until{};  // when the state has to be over
  RequestHead request;
  std::string head;
  std::shared_ptr<const std::string> body;
  std::size_t written = 0;  // of head and body together
};

Listener::Listener(rpc::EpollLoop& loop, Metrics& metrics, Options options)
    : loop_(loop),
      options_(std::move(options)),
      now_(metrics.gauge("http_connections", "connections for metrics open now")),
      strangers_(metrics.counter(
          "http_connections_refused_total",
          "connections for metrics from addresses that no entry of [metrics] scrapers names")) {
  for (std::size_t i = 0; i < kStatuses.size(); ++i) {
    answers_[i] = &metrics.counter("http_requests_total", "requests over HTTP, by the status of the answer",
                                   {{"code", std::to_string(static_cast<unsigned>(kStatuses[i]))}});
  }
  for (std::size_t i = 0; i < kEnds.size(); ++i) {
    ended_[i] = &metrics.counter("http_connections_ended_total",
                                 "connections for metrics that the server ended, by why: slow_request, "
                                 "slow_reader, crowded (another needed the place)",
                                 {{"why", kEnds[i]}});
  }
}

Listener::~Listener() {
  loop_.cancel(timer_);
  loop_.cancel(pause_);
  while (!connections_.empty()) close(connections_.begin());
  if (fd_ < 0) return;
  loop_.unwatch(fd_);
  ::close(fd_);
}

Result<rpc::Endpoint> Listener::listen(rpc::Endpoint at) {
  auto fd = rpc::listening_socket(at);
  if (!fd) return fail(std::move(fd).error());
  fd_ = *fd;
  loop_.watch(fd_, EPOLLIN, [this](std::uint32_t) { accept_some(); });
  return rpc::local_endpoint(fd_);
}

void Listener::accept_some() {
  for (int i = 0; i < kAcceptsARound; ++i) {
    rpc::SocketAddress from;
    const int fd = ::accept4(fd_, from.get(), from.size(), SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
      return pause_accepting();
    }
    if (fd < 0) return;
    const rpc::Endpoint peer = from.endpoint();
    if (options_.takes && !options_.takes(peer.address)) {
      strangers_.add();
      if (refusals_.allow(Refused::kStranger))
        log_warning("refused a connection for metrics from={}", to_string(peer));
      ::close(fd);
      continue;
    }
    make_room(peer.address);
    const Place place = connections_.emplace(connections_.end());
    place->fd = fd;
    place->peer = peer;
    now_.set(connections_.size());
    enter(*place, options_.request);
    loop_.watch(fd, EPOLLIN, [this, place](std::uint32_t events) { on_events(place, events); });
  }
}

// The connection stays in the backlog; without a pause the loop would spin on it.
void Listener::pause_accepting() {
  if (refusals_.allow(Refused::kCannotAccept)) {
    log_error("cannot accept a connection for metrics: {}", std::strerror(errno));
  }
  loop_.change(fd_, 0);
  pause_ = loop_.after(kPause, [this] { loop_.change(fd_, EPOLLIN); });
}

std::size_t Listener::of_address(IpAddress address) const {
  return static_cast<std::size_t>(
      std::count_if(connections_.begin(), connections_.end(),
                    [address](const Connection& each) { return each.peer.address == address; }));
}

void Listener::make_room(IpAddress address) {
  IpAddress crowded = address;
  if (of_address(address) < options_.connections_of_address) {
    if (connections_.size() < options_.connections) return;
    std::map<IpAddress, std::size_t> counts;
    for (const Connection& each : connections_) ++counts[each.peer.address];
    crowded = std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
                return a.second < b.second;
              })->first;
  }
  end(std::find_if(connections_.begin(), connections_.end(),
                   [crowded](const Connection& each) { return each.peer.address == crowded; }),
      Why::kCrowded);
}

void Listener::enter(Connection& connection, Duration time) {
  connection.until = loop_.now() + time;
  watch_time();
}

void Listener::on_events(Place place, std::uint32_t events) {
  if ((events & EPOLLERR) != 0) return close(place);
  switch (place->state) {
    case Connection::State::kReading:
      return read(place);
    case Connection::State::kWriting:
      return write(place);
    case Connection::State::kEnding:
      return drain(place);
  }
}

void Listener::read(Place place) {
  std::array<char, kReadAtOnce> bytes;
  const ssize_t n = ::recv(place->fd, bytes.data(), bytes.size(), 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) return close(place);
  place->request.give({bytes.data(), static_cast<std::size_t>(n)});
  if (place->request.ended()) answer(place);
}

void Listener::answer(Place place) {
  const RequestHead& request = place->request;
  Status status = request.status();
  if (status == Status::kOk && options_.answers_to && !options_.answers_to(request.host()))
    status = Status::kMisdirectedRequest;
  const Page page = status == Status::kOk ? options_.page(request.path()) : refusal(status);
  for (std::size_t i = 0; i < kStatuses.size(); ++i) {
    if (kStatuses[i] == page.status) answers_[i]->add();
  }
  place->head = head_of(page);
  place->body = page.body;
  place->state = Connection::State::kWriting;
  enter(*place, options_.answer);
  write(place);
}

void Listener::write(Place place) {
  const std::size_t head = place->head.size(), all = head + place->body->size();
  std::size_t at_once = kWriteAtOnce;
  while (place->written < all && at_once > 0) {
    const std::size_t of_head = std::min(place->written, head), of_body = place->written - of_head;
    const iovec from[2] = {
        {place->head.data() + of_head, head - of_head},
        {const_cast<char*>(place->body->data()) + of_body,  // NOLINT(cppcoreguidelines-pro-type-const-cast)
         std::min(place->body->size() - of_body, at_once)}};
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(from);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    message.msg_iovlen = 2;
    const ssize_t n = ::sendmsg(place->fd, &message, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) return close(place);
    place->written += static_cast<std::size_t>(n);
    at_once -= std::min(at_once, static_cast<std::size_t>(n));
  }
  if (place->written < all) return loop_.change(place->fd, EPOLLOUT);
  // Closed at once, what the client may still have sent would make the kernel take the answer back.
  ::shutdown(place->fd, SHUT_WR);
  place->body = nullptr;
  place->state = Connection::State::kEnding;
  enter(*place, options_.end);
  loop_.change(place->fd, EPOLLIN);
}

void Listener::drain(Place place) {
  std::array<char, kReadAtOnce> bytes;
  const ssize_t n = ::recv(place->fd, bytes.data(), bytes.size(), 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) close(place);
}

void Listener::close(Place place) {
  loop_.unwatch(place->fd);
  ::close(place->fd);
  connections_.erase(place);
  now_.set(connections_.size());
}

void Listener::end(Place place, Why why) {
  const auto index = static_cast<std::size_t>(why);
  ended_[index]->add();
  if (ends_.allow(why))
    log_warning("ended a connection for metrics: {} from={}", kEnds[index], to_string(place->peer));
  close(place);
}

void Listener::watch_time() {
  if (timer_ == TimerId::kNone) timer_ = loop_.after(kLook, [this] { look_at_time(); });
}

void Listener::look_at_time() {
  timer_ = TimerId::kNone;
  const MonoTime now = loop_.now();
  for (Place place = connections_.begin(); place != connections_.end();) {
    const Place each = place++;
    if (each->until > now) continue;
    if (each->state == Connection::State::kEnding) {
      close(each);  // the answer is with the client's kernel
    } else {
      end(each, each->state == Connection::State::kReading ? Why::kSlowRequest : Why::kSlowReader);
    }
  }
  if (!connections_.empty()) watch_time();
}

}  // namespace slice::http
