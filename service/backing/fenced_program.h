// FencedProgram: a program of a server with a backing set, which answers nobody while it is not sure to be
// the owner (docs/backing.md): a call that comes then, or was under way when that was so, waits until it is
// sure again. Where another is the owner now it gets no answer: this process ends, and who asked finds the
// owner. Without an answer otherwise a call over TCP would wait for its client's patience. One loop.
#ifndef SLICE_SERVICE_BACKING_FENCED_PROGRAM_H
#define SLICE_SERVICE_BACKING_FENCED_PROGRAM_H

#include "common/metrics.h"
#include "rpc/dispatcher.h"
#include "service/backing/backing_set.h"

namespace slice::service {

class FencedProgram : public rpc::Program {
 public:
  // All of it outlives this.
  FencedProgram(rpc::Program& program, BackingSet& set, Metrics& metrics)
      : program_(program),
        set_(set),
        waited_(metrics.counter("backing_waited_total",
                                "calls that waited until it was sure again that the backing set is this "
                                "server's")),
        unanswered_(metrics.counter("backing_unanswered_total",
                                    "calls that got no answer, since the backing set is another's now")) {}

  std::uint32_t number() const override { return program_.number(); }
  std::uint32_t version() const override { return program_.version(); }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override {
    if (set_.holds() || co_await holds_again()) {
      const rpc::Outcome outcome = co_await program_.handle(call, results);
      if (set_.holds() || co_await holds_again()) co_return outcome;
    }
    unanswered_.add();
    co_return rpc::Outcome::kDrop;
  }

 private:
  Task<bool> holds_again() {
    waited_.add();
    return set_.until_holds();
  }

  rpc::Program& program_;
  BackingSet& set_;
  Counter &waited_, &unanswered_;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_BACKING_FENCED_PROGRAM_H
