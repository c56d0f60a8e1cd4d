// Connection: RPC calls of one client to one server, over TCP or UDP, as many under way as one likes. It
// behaves as a hard mount does: a call is sent again until it is answered (UDP: after a second, then
// doubling; TCP: when the connection broke), until the patience ends. Calls of one round of the loop leave
// together.
#ifndef SLICE_TESTS_SPEC_LIKE_CONNECTION_H
#define SLICE_TESTS_SPEC_LIKE_CONNECTION_H

#include <memory>

#include "common/task.h"
#include "rpc/channel.h"
#include "rpc/epoll_loop.h"
#include "rpc/tls.h"

namespace slice::load {

enum class Transport { kTcp, kUdp };

class Connection {
 public:
  struct Options {
    rpc::Endpoint server;
    Transport transport = Transport::kTcp;
    rpc::AuthSys credential;
    Duration patience = std::chrono::seconds(60);
    Duration resend_after = std::chrono::seconds(1);  // UDP, the first time
    std::shared_ptr<const rpc::Tls> tls;              // TCP: asked for by AUTH_TLS (RFC 9289); none: in clear
  };
  struct Reply {
    rpc::Response response;
    bool resent = false;  // the server may have seen the call twice
    ByteView results() const { return response.results(); }
  };
  struct Counters {
    std::uint64_t calls = 0, resent = 0, connects = 0;
  };

  Connection(rpc::EpollLoop& loop, Options options);
  // No call may be under way, unless the loop does not run any more.
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // The head of a call; its arguments are the caller's to append.
  rpc::XdrWriter begin(std::uint32_t program, std::uint32_t version, std::uint32_t procedure);
  // Errors as rpc::Channel::call()'s.
  Task<Result<Reply>> call(rpc::XdrWriter begun);
  const Counters& counters() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace slice::load

#endif  // SLICE_TESTS_SPEC_LIKE_CONNECTION_H
