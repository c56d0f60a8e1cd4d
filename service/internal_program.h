// InternalProgram: an internal program (wire/internal.h) as every server serves it. It does what they share,
// so that a server writes its operations alone: refuses calls from outside the ensemble, decodes arguments,
// encodes results.
//
//   InternalProgram program(wire::kScanProgram);
//   program.on<wire::ScanArgs>(wire::ScanProcedure::kScan,
//                              [this](const wire::ScanArgs& args) { return scan(args); });
// One loop.
#ifndef SLICE_SERVICE_INTERNAL_PROGRAM_H
#define SLICE_SERVICE_INTERNAL_PROGRAM_H

#include <concepts>
#include <functional>
#include <utility>
#include <vector>

#include "rpc/dispatcher.h"
#include "service/internal_call.h"

namespace slice::service {

class InternalProgram : public rpc::Program {
 public:
  // `calls`, where given, counts those that came from the ensemble.
  explicit InternalProgram(std::uint32_t number, Counter* calls = nullptr) : number_(number), calls_(calls) {}

  // Registers the operation of a procedure, before anything is served; a procedure without one is none
  // (PROC_UNAVAIL). Args: what decode() takes, NoArguments where there are none; they live until the
  // operation ends. The operation is one of
  //   R (const Args&)                                the results, which encode() takes
  //   Task<R> (const Args&)
  //   Task<rpc::Outcome> (const Args&, rpc::XdrWriter& results)   appends them itself
  template <class Args, class Procedure, class F>
  void on(Procedure procedure, F operation) {
    auto index = static_cast<std::size_t>(procedure);
    if (operations_.size() <= index) operations_.resize(index + 1);
    operations_[index] = [operation = std::move(operation)](const rpc::Call& call, rpc::XdrWriter& results) {
      return decode_and_run<Args>(operation, call, results);
    };
  }

  std::uint32_t number() const override { return number_; }
  std::uint32_t version() const override { return wire::kInternalVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override;

 private:
  using Operation = std::function<Task<rpc::Outcome>(const rpc::Call& call, rpc::XdrWriter& results)>;

  template <class Args, class F>
  static Task<rpc::Outcome> decode_and_run(const F& operation, const rpc::Call& call,
                                           rpc::XdrWriter& results) {
    Args args{};
    if (!decode(call.arguments, args)) co_return rpc::Outcome::kGarbage;
    if constexpr (std::invocable<const F&, const Args&, rpc::XdrWriter&>) {
      co_return co_await operation(args, results);
    } else if constexpr (requires { encode(results, operation(args)); }) {
      encode(results, operation(args));
    } else {
      encode(results, co_await operation(args));
    }
    co_return rpc::Outcome::kReply;
  }

  std::uint32_t number_;
  Counter* calls_;
  std::vector<Operation> operations_;  // by procedure
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_INTERNAL_PROGRAM_H
