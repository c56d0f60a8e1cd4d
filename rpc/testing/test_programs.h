// Programs and small helpers that the tests and benchmarks of rpc/ share.
#ifndef SLICE_RPC_TESTING_TEST_PROGRAMS_H
#define SLICE_RPC_TESTING_TEST_PROGRAMS_H

#include <optional>
#include <string>
#include <vector>

#include "rpc/call.h"
#include "rpc/dispatcher.h"
#include "rpc/key_ring.h"

namespace slice::rpc {

inline constexpr EnsembleKey kTestKey{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

// The call's end, for a test that runs the loop until it is there.
inline Task<void> call_into(Channel& channel, Request request, std::optional<Result<Response>>& out) {
  out.emplace(co_await channel.call(std::move(request)));
}

// Procedure 1 answers its arguments, 2 answers nothing (dropped), 3 to 6 the other outcomes, 7 answers after
// release(), 8 answers as many bytes as the argument's number says, 9 is internal only, 10 answers as 8 and
// looks like an NFSv3 READ.
class EchoProgram : public Program {
 public:
  static constexpr std::uint32_t kNumber = 0x20000099;
  std::uint32_t number() const override { return kNumber; }
  std::uint32_t version() const override { return 2; }

  Task<Outcome> handle(const Call& call, XdrWriter& results) override {
    last = call;
    last.arguments = {};
    ++calls;
    switch (call.procedure) {
      case 1:
        results.fixed(call.arguments);
        co_return Outcome::kReply;
      case 2:
        co_return Outcome::kDrop;
      case 3:
        co_return Outcome::kGarbage;
      case 4:
        results.u32(1);  // must not reach the client
        co_return Outcome::kError;
      case 5:
        co_return Outcome::kDenied;
      case 7: {
        OneShot<bool> wait;
        waiting.push_back(wait);
        co_await wait;
        results.fixed(call.arguments);
        co_return Outcome::kReply;
      }
      case 8:
      case 10: {
        XdrReader in(call.arguments);
        std::uint32_t size = in.u32();
        if (!in.complete() || size > (4u << 20)) co_return Outcome::kGarbage;
        if (call.procedure == 10) {  // OK, no attributes, count, the end
          for (std::uint32_t word : {0u, 0u, size, 1u}) results.u32(word);
        }
        ByteSpan room = results.reserve_opaque(size);
        std::fill(room.begin(), room.end(), std::uint8_t{0x5a});
        co_return Outcome::kReply;
      }
      case 9:
        co_return call.internal ? Outcome::kReply : Outcome::kDenied;
      default:
        co_return Outcome::kNoProcedure;
    }
  }
  void release() {
    for (auto& each : std::exchange(waiting, {})) each.set(true);
  }

  Call last;
  std::uint64_t calls = 0;
  std::vector<OneShot<bool>> waiting;
};

inline Buffer number_argument(std::uint32_t value) {
  XdrWriter out;
  out.u32(value);
  return out.take();
}

}  // namespace slice::rpc

#endif  // SLICE_RPC_TESTING_TEST_PROGRAMS_H
