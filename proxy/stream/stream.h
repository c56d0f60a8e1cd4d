// Stream: the bytes of one connection as the data path sees it: in order, both ways, as many as there are.
// Sockets are one kind (socket_stream.h), the simulated network has another (tests/sim/streams.h). One loop.
#ifndef SLICE_PROXY_STREAM_STREAM_H
#define SLICE_PROXY_STREAM_STREAM_H

#include <sys/epoll.h>
#include <sys/types.h>

#include <functional>
#include <memory>

#include "rpc/endpoint.h"
#include "rpc/session.h"
#include "rpc/tls.h"

namespace slice::proxy {

class Stream {
 public:
  // What a stream may be ready for.
  static constexpr std::uint32_t kReadable = EPOLLIN, kWritable = EPOLLOUT, kEnded = EPOLLHUP | EPOLLERR;
  using Handler = std::function<void(std::uint32_t ready)>;

  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;  // closes it; the handler is not called any more

  // Calls `ready` whenever there is some of `wanted`, or it has ended; once in a stream's life. The handler
  // may destroy the stream.
  virtual void watch(std::uint32_t wanted, Handler ready) = 0;
  virtual void change(std::uint32_t wanted) = 0;
  // Of one that a Connector has made, when it is ready for the first time: 0, or why (as errno) it has no
  // other end.
  virtual int connect_error() = 0;
  // As read(2): bytes; 0 at the other end's close; -1 and errno, EAGAIN where there is nothing now.
  virtual ssize_t read(ByteSpan into) = 0;
  // Writes what can be written now. kBroken: errno says why.
  virtual rpc::Written write(std::span<const iovec> bytes) = 0;
  // Null: bytes go as they are. It is up when the peer's greeting was given to it.
  virtual rpc::Session* session() { return nullptr; }
  // From now on bytes go through TLS, of which this is the server's side, with the peer at `address`; `tls`
  // outlives the stream. Only where Worker::Options::tls offers it: of sockets.
  virtual void begin_tls(const rpc::Tls& /*tls*/, IpAddress /*address*/) {}
  virtual rpc::TlsStream* tls() { return nullptr; }  // what was begun
  // There are bytes for the peer that write() sends first, also where it is given none.
  virtual bool has_to_say() { return session() != nullptr && session()->has_to_say(); }
};

// Makes streams to servers.
class Connector {
 public:
  virtual ~Connector() = default;
  // One that is kWritable as soon as it is connected, or is known not to be; null where even that cannot
  // begin.
  virtual std::unique_ptr<Stream> connect(rpc::Endpoint to) = 0;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_STREAM_STREAM_H
