#include "proxy/front/listeners.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "common/log.h"
#include "proxy/front/listener_guard.h"
#include "rpc/bound_socket.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;

constexpr int kGuardPatienceMs = 1000;
constexpr Duration kTryAgain = 1s;

bool is_bound_to(int fd, int type, rpc::Endpoint at) {
  int its_type = 0;
  socklen_t size = sizeof its_type;
  if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &its_type, &size) != 0 || its_type != type) return false;
  return rpc::local_endpoint(fd) == at;
}

}  // namespace

Listeners::Listeners(rpc::EpollLoop& loop, Options options) : loop_(loop), options_(options) {}

Listeners::~Listeners() {
  loop_.cancel(again_);
  if (channel_ >= 0) {
    loop_.unwatch(channel_);
    ::close(channel_);
  }
  close_all(offered_);
  close_bound();
}

void Listeners::close_bound() {
  for (auto [fd, second] : bound_) ::close(second);
  bound_.clear();
}

Status Listeners::take_over() {
  channel_ = connect_to_guard(options_.at);
  if (channel_ < 0) return {};
  limit_waiting(channel_, kGuardPatienceMs);
  errno = 0;
  auto told = receive_sockets(channel_);
  if (told) {
    offered_ = std::move(told->sockets);
    return {};
  }
  bool silent = errno == EAGAIN || errno == EWOULDBLOCK;
  ::close(std::exchange(channel_, -1));
  // Its time may just have been over.
  if (!silent) return {};
  return fail(Errc::kUnavailable, "another process serves {}: its guard gives its sockets to nobody",
              rpc::to_string(options_.at));
}

int Listeners::take_offered(int type, rpc::Endpoint at) {
  for (int& fd : offered_) {
    if (!is_bound_to(fd, type, at)) continue;
    std::swap(fd, offered_.back());
    int found = offered_.back();
    offered_.pop_back();
    ++taken_over_;
    return found;
  }
  return -1;
}

Result<BoundSocket> Listeners::bind(int type, rpc::Endpoint at, Sharing sharing) {
  BoundSocket socket{take_offered(type, at), at};
  if (socket.fd < 0) {
    auto made = bind_socket(type, at, sharing);
    if (!made) return made;
    socket = *made;
  }
  int second = ::fcntl(socket.fd, F_DUPFD_CLOEXEC, 0);
  if (second >= 0) bound_[socket.fd] = second;
  return socket;
}

void Listeners::give_up(const BoundSocket& socket) {
  ::close(socket.fd);
  auto found = bound_.find(socket.fd);
  if (found == bound_.end()) return;
  ::close(found->second);
  bound_.erase(found);
}

void Listeners::keep() {
  close_all(offered_);
  if (channel_ < 0) channel_ = connect_to_guard(options_.at);
  if (channel_ < 0) channel_ = start_guard(options_.at, static_cast<int>(options_.keep.count()), guard_pid_);
  if (channel_ >= 0) {
    limit_waiting(channel_, kGuardPatienceMs);
    std::vector<int> all;
    for (auto [fd, second] : bound_) all.push_back(second);
    if (send_sockets(channel_, all)) return watch_guard();
  }
  log_warning("no guard of the listening sockets: {}", std::strerror(errno));
  lose_guard();
}

void Listeners::watch_guard() {
  loop_.watch_readable(channel_, [this] {
    // What it kept is here as well; and at its end there is nothing to read.
    if (auto told = receive_sockets(channel_)) return close_all(told->sockets);
    loop_.unwatch(channel_);
    log_warning("the guard of the listening sockets has ended");
    lose_guard();
  });
}

void Listeners::lose_guard() {
  if (channel_ >= 0) ::close(std::exchange(channel_, -1));
  if (guard_pid_ > 0) ::waitpid(std::exchange(guard_pid_, -1), nullptr, WNOHANG);
  again_ = loop_.after(kTryAgain, [this] { keep(); });
}

void Listeners::release() {
  loop_.cancel(std::exchange(again_, TimerId::kNone));
  close_bound();
  if (channel_ < 0) return;
  loop_.unwatch(channel_);
  send_end(channel_);
  ::close(std::exchange(channel_, -1));
}

}  // namespace slice::proxy
