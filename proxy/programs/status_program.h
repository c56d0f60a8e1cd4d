// StatusProgram: NSM version 1 (wire/nsm1.h) on the virtual address: a client that was restarted says so, and
// loses the locks of before. Nobody is monitored here: no restart of a server loses a lock, so no client is
// told of one.
#ifndef SLICE_PROXY_PROGRAMS_STATUS_PROGRAM_H
#define SLICE_PROXY_PROGRAMS_STATUS_PROGRAM_H

#include "common/metrics.h"
#include "rpc/dispatcher.h"
#include "rpc/refusals.h"
#include "service/context.h"
#include "wire/nsm1.h"

namespace slice::proxy {

class StatusProgram : public rpc::Program {
 public:
  // `context` outlives it.
  explicit StatusProgram(service::ServiceContext& context);
  std::uint32_t number() const override { return nsm1::kProgram; }
  std::uint32_t version() const override { return nsm1::kVersion; }
  // NOTIFY is answered when all servers know it; all else is kNoProcedure.
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override;

 private:
  service::ServiceContext& context_;
  Counter &notified_, &unanswered_;
  rpc::Refusals refusals_;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_PROGRAMS_STATUS_PROGRAM_H
