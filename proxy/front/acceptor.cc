#include "proxy/front/acceptor.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "proxy/stream/socket_stream.h"
#include "rpc/bound_socket.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kAcceptsARound = 64;
constexpr Duration kPause = 100ms;

}  // namespace

Acceptor::Acceptor(rpc::EpollLoop& loop, int listener, Take take)
    : loop_(loop), listener_(listener), take_(std::move(take)) {
  loop_.watch(listener_, EPOLLIN, [this](std::uint32_t) { accept(); });
}

Acceptor::~Acceptor() {
  loop_.cancel(again_);
  loop_.unwatch(listener_);
  ::close(listener_);
}

void Acceptor::accept() {
  for (std::size_t i = 0; i < kAcceptsARound; ++i) {
    rpc::SocketAddress from;
    int fd = ::accept4(listener_, from.get(), from.size(), SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) pause();
      return;
    }
    take_(std::make_unique<SocketStream>(loop_, fd), from.endpoint());
  }
}

// No descriptors: connections wait in the backlog for a while.
void Acceptor::pause() {
  if (log_.allow()) log_warning("cannot accept a connection: {}", std::strerror(errno));
  loop_.change(listener_, 0);
  again_ = loop_.after(kPause, [this] { loop_.change(listener_, EPOLLIN); });
}

}  // namespace slice::proxy
