// LockProgram: NLM version 4 (wire/nlm4.h) on the virtual address. There are no locks over the network: every
// call for one is refused at once, so that a program which asks for a lock is told ENOLCK instead of waiting.
#ifndef SLICE_PROXY_PROGRAMS_LOCK_PROGRAM_H
#define SLICE_PROXY_PROGRAMS_LOCK_PROGRAM_H

#include "common/log.h"
#include "common/metrics.h"
#include "rpc/dispatcher.h"
#include "wire/nlm4.h"

namespace slice::proxy {

class LockProgram : public rpc::Program {
 public:
  explicit LockProgram(Metrics& metrics)
      : refused_(
            metrics.counter("proxy_locks_refused_total", "NLM calls for a lock, which are all refused")) {}
  std::uint32_t number() const override { return nlm4::kProgram; }
  std::uint32_t version() const override { return nlm4::kVersion; }
  // The procedures by messages are refused as such (kNoProcedure): to answer one is to call whom a datagram
  // says that it is from.
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override;

 private:
  Counter& refused_;
  LogLimiter log_limit_{1};
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_PROGRAMS_LOCK_PROGRAM_H
