// FencedProgram: a program of a server with a backing set, which answers nobody while it is not sure to be
// the owner (docs/backing.md): a call that comes then, or was under way when that was so, gets no answer. Who
// asked asks again, and finds the owner. One loop.
#ifndef SLICE_SERVICE_BACKING_FENCED_PROGRAM_H
#define SLICE_SERVICE_BACKING_FENCED_PROGRAM_H

#include "common/metrics.h"
#include "rpc/dispatcher.h"
#include "service/backing/backing_set.h"

namespace slice::service {

class FencedProgram : public rpc::Program {
 public:
  // All of it outlives this.
  FencedProgram(rpc::Program& program, const BackingSet& set, Counter& unanswered)
      : program_(program), set_(set), unanswered_(unanswered) {}

  std::uint32_t number() const override { return program_.number(); }
  std::uint32_t version() const override { return program_.version(); }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override {
    rpc::Outcome outcome = rpc::Outcome::kDrop;
    if (set_.holds()) outcome = co_await program_.handle(call, results);
    if (set_.holds()) co_return outcome;
    unanswered_.add();
    co_return rpc::Outcome::kDrop;
  }

 private:
  rpc::Program& program_;
  const BackingSet& set_;
  Counter& unanswered_;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_BACKING_FENCED_PROGRAM_H
