// NbdServer: serves block devices to clients of the NBD protocol (docs of it: nbd.h), over TCP and unix
// sockets, on an event loop that has other work.
//
// It speaks fixed newstyle with structured replies, and offers NBD_CMD_FLUSH, FUA and NBD_CMD_WRITE_ZEROES.
// As many connections as a client likes may use one device: what any of them has flushed is durable.
//
// Clients may be hostile: what each and all of them may take is bounded (NbdOptions). Who may connect has all
// devices; over TCP that is whom `takes` lets in, and of a unix socket its owner and group.
#ifndef SLICE_BLOCK_NBD_SERVER_H
#define SLICE_BLOCK_NBD_SERVER_H

#include <memory>
#include <string>
#include <vector>

#include "block/device.h"
#include "block/nbd_shared.h"
#include "block/unix_listener.h"
#include "common/metrics.h"
#include "proxy/front/acceptor.h"
#include "rpc/endpoint.h"
#include "rpc/epoll_loop.h"

namespace slice::block {

class NbdServer {
 public:
  using Options = NbdOptions;

  // One loop. Loop, metrics and devices outlive it, and the requests that it has under way at its end.
  NbdServer(rpc::EpollLoop& loop, Metrics& metrics, Devices& devices, Options options = {});
  // Ends all connections. Requests under way go on without them.
  ~NbdServer();
  NbdServer(const NbdServer&) = delete;
  NbdServer& operator=(const NbdServer&) = delete;

  // Serves there from now on, too; where it is bound.
  Result<rpc::Endpoint> listen(rpc::Endpoint at);
  // The same of a path, which is there until the server ends. Errors: UnixListener::listen().
  Status listen(std::string path);

  // Takes no more connections and requests. Each connection ends when its client has the replies to what is
  // under way: before the server goes, so that they are not lost, as long as its owner likes to wait for
  // connections() to be 0.
  void finish();

  std::size_t connections() const { return shared_->connections.size(); }

 private:
  void take(std::unique_ptr<proxy::Stream> stream, rpc::Endpoint peer);
  bool make_room();

  const std::shared_ptr<NbdShared> shared_;
  std::vector<UnixListener> paths_;
  std::vector<std::unique_ptr<proxy::Acceptor>> acceptors_;
};

}  // namespace slice::block

#endif  // SLICE_BLOCK_NBD_SERVER_H
