// GrantProgram: GRANT of the locks program (wire/locks.h): tells a client that waits for a lock that it has
// it, as NLM version 4's GRANTED, which the client takes from the virtual address alone. One loop.
#ifndef SLICE_PROXY_PROGRAMS_GRANT_PROGRAM_H
#define SLICE_PROXY_PROGRAMS_GRANT_PROGRAM_H

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/metrics.h"
#include "proxy/programs/client_calls.h"
#include "service/internal_program.h"
#include "wire/locks.h"

namespace slice::proxy {

class GrantProgram : public service::InternalProgram {
 public:
  // `run`: not 0, and of no other process. `holds`: whether clients' answers come to this host.
  GrantProgram(Loop& loop, Metrics& metrics, std::uint64_t run, std::function<bool()> holds);
  // ClientCalls::call(): how clients are called, once there is a socket for that.
  using CallClient = std::function<Task<ClientCalls::Answer>(rpc::Endpoint to, ClientCalls::Procedure what,
                                                             Buffer arguments, std::vector<Duration> tries)>;
  void serve(CallClient call) { call_ = std::move(call); }

 private:
  Task<wire::GrantResult> grant(const wire::GrantArgs& args);
  Task<wire::GrantResult> tell(IpAddress address, Buffer call);
  // Of the client's lock manager, as its rpcbind says now; 0: it is not found.
  // 0 where the client's rpcbind does not say it; by version 2 of IPv4, by version 4 of IPv6.
  Task<std::uint16_t> ask_port(IpAddress address);
  Task<std::uint16_t> ask_portmap(IpAddress address);
  Task<std::uint16_t> ask_rpcbind(IpAddress address);
  struct Said {
    std::optional<nlm4::Status> status;
    std::size_t sent = 0;
  };
  Task<Said> granted(rpc::Endpoint client, const Buffer& call, Duration patience);

  Loop& loop_;
  const std::uint64_t run_;
  const std::function<bool()> holds_;
  CallClient call_;
  std::map<IpAddress, std::uint16_t> ports_;  // of clients' lock managers, as they were
  // What became of calls; nothing: it is under way. A copy of one, as comes over a new connection, is not
  // sent to the client again: it has the lock already, and would say that it does not wait for it.
  std::map<std::string, std::optional<wire::GrantResult>> told_;
  std::deque<std::string> told_order_;
  Counter &granted_, &denied_, &unreachable_, &unanswered_;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_PROGRAMS_GRANT_PROGRAM_H
