// Acceptor: the connections that clients make to a listening socket.
#ifndef SLICE_PROXY_FRONT_ACCEPTOR_H
#define SLICE_PROXY_FRONT_ACCEPTOR_H

#include <functional>

#include "common/log.h"
#include "proxy/stream/stream.h"
#include "rpc/epoll_loop.h"

namespace slice::proxy {

class Acceptor {
 public:
  using Take = std::function<void(std::unique_ptr<Stream> connection, rpc::Endpoint peer)>;
  // `listener` is its own from here on.
  Acceptor(rpc::EpollLoop& loop, int listener, Take take);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

 private:
  void accept();
  void pause();

  rpc::EpollLoop& loop_;
  const int listener_;
  Take take_;
  TimerId again_ = TimerId::kNone;
  LogLimiter log_{1};
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_FRONT_ACCEPTOR_H
