// What it costs to measure an operation: a WRITE through dispatcher and program, with one sync and one write
// of a file, while nobody wants to know (off), while slow ones are logged (log), while somebody watches what
// is slower than any (slower), and while somebody watches everything (all). `plain`: without the tracer's
// program and disk.
#include <benchmark/benchmark.h>

#include <memory>

#include "common/manual_loop.h"
#include "rpc/in_process.h"
#include "service/testing/sample_config.h"
#include "service/traced_program.h"
#include "storage/memory_disk.h"
#include "storage/traced_disk.h"

namespace slice::service {
namespace {

using namespace std::chrono_literals;

// A clock that costs what the real one does; nothing waits for a time here.
class TimedLoop : public ManualLoop {
 public:
  MonoTime now() const override { return round_; }
  void begin_round() { round_ = now_exactly(); }
  MonoTime now_exactly() const override {
    return MonoTime(std::chrono::steady_clock::now().time_since_epoch());
  }

 private:
  MonoTime round_ = now_exactly();
};

class WriteProgram : public rpc::Program {
 public:
  explicit WriteProgram(storage::File& file) : file_(file) {}
  std::uint32_t number() const override { return nfs3::kProgram; }
  std::uint32_t version() const override { return nfs3::kVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override {
    (void)co_await file_.write(0, call.arguments.last(4096));
    (void)co_await file_.sync();
    results.u32(0);
    co_return rpc::Outcome::kReply;
  }

 private:
  storage::File& file_;
};

enum class Wanted { kPlain, kOff, kLog, kSlower, kAll };

Buffer write_call(const routing::HandleCodec& handles) {
  const std::string data(4096, 'x');
  const routing::HandleBytes handle = handles.mint({.fileid = FileId{77}});
  rpc::XdrWriter out;
  rpc::encode_call(out,
                   {.xid = Xid{1}, .program = nfs3::kProgram, .version = nfs3::kVersion, .procedure = 7});
  nfs3::encode_arguments(out, nfs3::WriteArgs{.file = handle,
                                              .offset = 65536,
                                              .count = 4096,
                                              .stable = nfs3::Stable::kFileSync,
                                              .data = as_bytes(data)});
  return out.take();
}

Task<void> open_file(storage::Disk& disk, std::unique_ptr<storage::File>& file) {
  auto opened = co_await disk.open("objects/00000001/0000000000000002.0", storage::Disk::Mode::kCreate);
  if (opened) file = std::move(*opened);
}

Task<void> carry_out(rpc::Dispatcher& dispatcher, Buffer call, bool& done) {
  auto reply = co_await dispatcher.dispatch(std::move(call), rpc::Endpoint{1, 2}, 0);
  done = reply.has_value();
}

void operation(benchmark::State& state, Wanted wanted) {
  TimedLoop loop;
  Metrics metrics;
  const EnsembleConfig config = testing::sample_config();
  const routing::HandleCodec handles(config);
  Tracer tracer("store1", "", metrics);
  std::unique_ptr<storage::Disk> disk = std::make_unique<storage::MemoryDisk>(loop);
  if (wanted != Wanted::kPlain)
    disk = std::make_unique<storage::TracedDisk>(std::move(disk), [&tracer] { return tracer.on(); });
  std::unique_ptr<storage::File> file;
  spawn(open_file(*disk, file));
  loop.run_ready();
  WriteProgram program(*file);
  TracedProgram traced(program, tracer, loop, handles);
  rpc::Dispatcher dispatcher(metrics);
  dispatcher.add(wanted == Wanted::kPlain ? static_cast<rpc::Program&>(program) : traced);
  const Buffer call = write_call(handles);
  if (wanted == Wanted::kLog) tracer.log_slower(1h);
  const wire::TraceArgs watch{.watch = 1,
                              .lease_ms = wire::kMaxTraceLease,
                              .filter = {.slower = wanted == Wanted::kSlower ? Duration(1h) : Duration(0)}};
  std::uint64_t operations = 0;
  for (auto _ : state) {
    const bool renew = wanted >= Wanted::kSlower && operations++ % 10'000 == 0;
    if (renew) tracer.trace(watch, loop.now_exactly());
    bool done = false;
    loop.begin_round();
    spawn(carry_out(dispatcher, call.clone(), done));
    loop.run_ready();
    if (!done) return state.SkipWithError("no reply");
  }
}
BENCHMARK_CAPTURE(operation, plain, Wanted::kPlain);
BENCHMARK_CAPTURE(operation, off, Wanted::kOff);
BENCHMARK_CAPTURE(operation, log, Wanted::kLog);
BENCHMARK_CAPTURE(operation, slower, Wanted::kSlower);
BENCHMARK_CAPTURE(operation, all, Wanted::kAll);

}  // namespace
}  // namespace slice::service

BENCHMARK_MAIN();
