// TracedProgram: a program as a server serves it, or a proxy its MOUNT, each of whose calls is measured while
// somebody watches (service/tracer.h): the one place where an operation of a server begins and ends. One
// loop.
#ifndef SLICE_SERVICE_TRACED_PROGRAM_H
#define SLICE_SERVICE_TRACED_PROGRAM_H

#include "common/loop.h"
#include "routing/file_handle.h"
#include "rpc/dispatcher.h"
#include "service/tracer.h"

namespace slice::service {

class TracedProgram : public rpc::Program {
 public:
  // All of it outlives this.
  TracedProgram(rpc::Program& program, Tracer& tracer, const Loop& loop, const routing::HandleCodec& handles)
      : program_(program), tracer_(tracer), loop_(loop), handles_(handles) {}

  std::uint32_t number() const override { return program_.number(); }
  std::uint32_t version() const override { return program_.version(); }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override {
    return tracer_.on() ? handle_traced(call, results) : program_.handle(call, results);
  }

 private:
  Task<rpc::Outcome> handle_traced(const rpc::Call& call, rpc::XdrWriter& results);
  // Who asked for what.
  wire::TraceRecord describe(const rpc::Call& call) const;

  rpc::Program& program_;
  Tracer& tracer_;
  const Loop& loop_;
  const routing::HandleCodec& handles_;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_TRACED_PROGRAM_H
