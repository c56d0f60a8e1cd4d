// Fuzzes the RPC layer: the record reader under any cutting of any stream, call and reply headers,
// credentials, seals, and the dispatcher as a whole. The first two bytes of the input say how the stream is
// cut.
#include <cstdlib>

#include "rpc/gss.h"
#include "rpc/record.h"
#include "rpc/testing/test_programs.h"

namespace slice::rpc {
namespace {

constexpr std::size_t kMaxRecord = 4096;

Task<void> dispatch(Dispatcher& dispatcher, Buffer record) {
  auto reply = co_await dispatcher.dispatch(std::move(record), {}, kRecordMark);
  // A reply is one that its caller can read.
  if (reply && !decode_reply(reply->view().subspan(kRecordMark))) std::abort();
}

void cut_and_dispatch(Dispatcher& dispatcher, ByteView input, std::size_t piece) {
  RecordReader reader(kMaxRecord);
  Buffer record;
  while (!input.empty() && !reader.broken()) {
    Buffer chunk(input.first(std::min(piece, input.size())));
    input = input.subspan(chunk.size());
    ByteSpan direct = reader.direct();
    std::size_t to_direct = std::min(direct.size(), chunk.size());
    if (to_direct > 0) {
      std::memcpy(direct.data(), chunk.data(), to_direct);
      reader.give_direct(to_direct);
    }
    reader.give(chunk.view().subspan(to_direct));
    while (reader.next(record)) {
      if (record.size() > kMaxRecord) std::abort();
      spawn(dispatch(dispatcher, std::move(record)));
    }
  }
}

}  // namespace
}  // namespace slice::rpc

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace slice;
  using namespace slice::rpc;
  static Metrics metrics;
  static EchoProgram echo;
  static Dispatcher& dispatcher = []() -> Dispatcher& {
    configure_log("fuzz", LogLevel::kError);
    static Dispatcher made(metrics);
    made.add(echo);
    return made;
  }();
  if (size < 2) return 0;
  ByteView input(data + 2, size - 2);
  (void)decode_reply(input);
  (void)decode_auth_sys(input);
  (void)decode_gss_credential(input);
  (void)decode_gss_integrity(input);
  (void)decode_gss_privacy(input);
  spawn(dispatch(dispatcher, Buffer(input)));
  cut_and_dispatch(dispatcher, input, 1 + data[0] + std::size_t{data[1]} * 64);
  echo.release();
  return 0;
}
