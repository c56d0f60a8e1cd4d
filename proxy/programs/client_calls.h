// ClientCalls: calls of programs on clients' hosts, over UDP, from the virtual address of their family: whom
// a client waits for is the address that it has mounted. One loop.
#ifndef SLICE_PROXY_PROGRAMS_CLIENT_CALLS_H
#define SLICE_PROXY_PROGRAMS_CLIENT_CALLS_H

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/bytes.h"
#include "common/loop.h"
#include "common/result.h"
#include "common/task.h"
#include "rpc/endpoint.h"

namespace slice::proxy {

class ClientCalls {
 public:
  // A socket at a reserved port of each of the addresses, at most one of a family, which need not be on this
  // host yet; kIo. `random`: for xids.
  static Result<std::unique_ptr<ClientCalls>> open(Loop& loop, const std::vector<IpAddress>& addresses,
                                                   const std::function<std::uint64_t()>& random);
  ClientCalls(const ClientCalls&) = delete;
  ClientCalls& operator=(const ClientCalls&) = delete;
  ~ClientCalls();

  struct Procedure {
    std::uint32_t program = 0, version = 0, number = 0;
  };
  struct Answer {
    // Nothing where none have come after the last of the tries, or where the client refuses the call.
    std::optional<Buffer> results;
    // How often the call was sent. More than once: what was answered may be the answer to a copy.
    std::size_t sent = 0;
  };
  // Each of the tries waits for its time.
  Task<Answer> call(rpc::Endpoint to, Procedure what, Buffer arguments, std::vector<Duration> tries);

 private:
  ClientCalls(Loop& loop, std::uint32_t first_xid);
  Status add_socket(IpAddress address);
  void read(int socket);

  struct Waiting {
    rpc::Endpoint from;
    OneShot<std::optional<Buffer>> reply;  // the record; nothing: time is over
  };
  Loop& loop_;
  int v4_ = -1, v6_ = -1;  // sockets
  std::uint32_t xid_;
  bool closed_ = false;
  std::map<std::uint32_t, Waiting> waiting_;  // by xid
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_PROGRAMS_CLIENT_CALLS_H
