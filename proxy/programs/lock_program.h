// LockProgram: NLM version 4 (wire/nlm4.h) on the virtual address: passes each call to the directory server
// that has its file's site, which keeps the locks (docs/locks.md).
#ifndef SLICE_PROXY_PROGRAMS_LOCK_PROGRAM_H
#define SLICE_PROXY_PROGRAMS_LOCK_PROGRAM_H

#include "common/log.h"
#include "common/metrics.h"
#include "rpc/dispatcher.h"
#include "service/context.h"
#include "wire/nlm4.h"

namespace slice::proxy {

class LockProgram : public rpc::Program {
 public:
  // `context` outlives it.
  explicit LockProgram(service::ServiceContext& context);
  std::uint32_t number() const override { return nlm4::kProgram; }
  std::uint32_t version() const override { return nlm4::kVersion; }
  // The procedures by messages are refused as such (kNoProcedure): to answer one is to call whom a datagram
  // says that it is from.
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override;

 private:
  Task<rpc::Outcome> forward(const rpc::Call& call, ByteView cookie, ByteView handle,
                             rpc::XdrWriter& results);
  Task<rpc::Outcome> free_all(const rpc::Call& call);

  service::ServiceContext& context_;
  Counter &calls_, &unanswered_, &freed_;
  LogLimiter log_{1};
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_PROGRAMS_LOCK_PROGRAM_H
