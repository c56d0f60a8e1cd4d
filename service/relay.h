// Relay: passes a misdirected NFS call to the server that owns its site, for the client that made it, and
// tells the proxies that their tables led it astray. docs/architecture.md, "Tables are hints". One loop.
#ifndef SLICE_SERVICE_RELAY_H
#define SLICE_SERVICE_RELAY_H

#include <memory>

#include "common/log.h"
#include "routing/tables.h"
#include "rpc/dispatcher.h"
#include "service/context.h"

namespace slice::service {

// A client's call, an NFS call unless it is said otherwise, for another server, on behalf of the client that
// made `call`; one relay further.
rpc::Request forwarded(const rpc::Call& call, rpc::Endpoint to, std::uint32_t program = nfs3::kProgram,
                       std::uint32_t version = nfs3::kVersion);

// An internal call of `program` for the server whose it is, one relay further.
rpc::Request forwarded_internal(const rpc::Call& call, std::uint32_t program, rpc::Endpoint to);

class Relay {
 public:
  static constexpr Duration kPatience = std::chrono::seconds(8);  // with the owner
  // A call that so many servers have passed on is not passed on again: their tables contradict one another.
  static constexpr std::uint8_t kMaxRelays = 2;
  static constexpr Duration kReportInterval = std::chrono::seconds(1);  // to one proxy, at least

  explicit Relay(ServiceContext& context);

  // Asks the server `to`, which has `place` by this process's tables; its results are the reply, byte for
  // byte.
  // Errors: kMisdirected where the call was relayed too often already, kDenied where the owner refused it:
  // neither was executed. kInvalid: the arguments are garbage to the owner. kIo: SYSTEM_ERR. kTimedOut,
  // kUnavailable: no answer within kPatience; whether the call was executed is not known. `call` must live
  // until this ends.
  Task<Result<rpc::Response>> pass_on(const rpc::Call& call, routing::Route place, std::uint32_t to);

 private:
  class Reports;

  ServiceContext& context_;
  Counter& relayed_;
  Counter& failures_;
  Counter& loops_;
  LogLimiter log_{2};
  std::shared_ptr<Reports> reports_;  // shared with reports under way
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_RELAY_H
