// Streams over sockets.
#ifndef SLICE_PROXY_STREAM_SOCKET_STREAM_H
#define SLICE_PROXY_STREAM_SOCKET_STREAM_H

#include <optional>

#include "common/log.h"
#include "proxy/stream/stream.h"
#include "rpc/epoll_loop.h"
#include "rpc/key_ring.h"

namespace slice::proxy {

class SocketStream : public Stream {
 public:
  // `fd`, of a connection, is the stream's from here on.
  SocketStream(rpc::EpollLoop& loop, int fd, std::unique_ptr<rpc::Session> session = nullptr);
  ~SocketStream() override;

  void watch(std::uint32_t wanted, Handler ready) override;
  void change(std::uint32_t wanted) override;
  int connect_error() override;
  ssize_t read(ByteSpan into) override;
  rpc::Written write(std::span<const iovec> bytes) override;
  rpc::Session* session() override { return session_.get(); }
  void begin_tls(const rpc::Tls& tls, IpAddress address) override;
  rpc::TlsStream* tls() override { return tls_.get(); }
  bool has_to_say() override { return tls_ != nullptr ? tls_->has_to_say() : Stream::has_to_say(); }

 private:
  // Who waits for bytes is told of those that TLS has taken from the socket already: the socket does not.
  void tell_of_pending();

  rpc::EpollLoop& loop_;
  const int fd_;
  std::unique_ptr<rpc::Session> session_;
  std::unique_ptr<rpc::TlsStream> tls_;
  std::shared_ptr<Handler> ready_;  // null: not watched
  std::uint32_t wanted_ = 0;
  bool telling_ = false;
};

class SocketConnector : public Connector {
 public:
  // `keys`: of sessions with servers; null: connections have none. Both outlive it and its streams. `from`:
  // the address that connections come from, each from a reserved port, as a client's that exports let in;
  // none: as the kernel chooses.
  SocketConnector(rpc::EpollLoop& loop, const rpc::KeyRing* keys, std::optional<IpAddress> from = {})
      : loop_(loop), keys_(keys), from_(from) {}
  std::unique_ptr<Stream> connect(rpc::Endpoint to) override;

 private:
  int dial(rpc::Endpoint to);
  int dial_from_reserved_port(rpc::Endpoint to);

  rpc::EpollLoop& loop_;
  const rpc::KeyRing* keys_;
  const std::optional<IpAddress> from_;
  LogLimiter no_port_{1};
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_STREAM_SOCKET_STREAM_H
