// What a small call costs: in the dispatcher alone, over TCP and UDP loopback with many under way, and what
// large records move. Client and server share one loop, so the time of a call is the CPU of both sides.
#include <benchmark/benchmark.h>

#include "common/testing/temporary_folder.h"
#include "rpc/call.h"
#include "rpc/client.h"
#include "rpc/server.h"
#include "rpc/testing/certificates.h"
#include "rpc/testing/test_programs.h"

namespace slice::rpc {
namespace {

using namespace std::chrono_literals;

enum Way { kPlain, kHeads, kAll, kTls };  // without a session; by what its MACs cover; heads, over TLS

// A certificate for this host, made once.
const TlsConfig& certificate() {
  static const TemporaryFolder folder;
  static const TlsConfig files = testing::Authority(folder.path()).issue("host");
  return files;
}

struct World {
  explicit World(Way way = kHeads) {
    dispatcher.add(echo);
    if (way == kTls && !keys.use_tls(certificate())) std::abort();
    auto bound = server.listen({0x7f000001, 0});
    if (bound) at = *bound;
  }
  Metrics metrics;
  EpollLoop loop;
  EchoProgram echo;
  KeyRing keys{kTestKey};
  Dispatcher dispatcher{metrics};
  Server server{loop, dispatcher, metrics, {.keys = &keys}};
  KeyRing all_keys{std::vector{kTestKey}, Coverage::kAll};
  SocketChannel heads{loop, {.keys = &keys}};
  SocketChannel all{loop, {.keys = &all_keys}};
  SocketChannel plain{loop, {}};
  Endpoint at;
  std::uint64_t done = 0;
};

Task<void> one_after_another(World& world, Channel& channel, std::uint32_t procedure, std::uint32_t size,
                             const bool& stop) {
  while (!stop) {
    Request request{.to = world.at, .program = EchoProgram::kNumber, .version = 2, .procedure = procedure};
    if (procedure == 1) {
      request.arguments = Buffer(size);
      request.credential = AuthSys{.machine_name = "client", .uid = 1, .gid = 1};
    } else {
      request.arguments = number_argument(size);
    }
    auto reply = co_await channel.call(std::move(request));
    if (!reply) co_return;
    ++world.done;
  }
}

void run(benchmark::State& state, Way way, std::uint32_t procedure, std::uint32_t size, int depth) {
  World world(way);
  Channel& channel = way == kPlain ? world.plain : way == kAll ? world.all : world.heads;
  bool stop = false;
  for (int i = 0; i < depth; ++i) spawn(one_after_another(world, channel, procedure, size, stop));
  world.loop.run_until([&] { return world.done >= static_cast<std::uint64_t>(depth); }, 5s);
  std::uint64_t start = world.done;
  for (auto _ : state) {
    std::uint64_t target = world.done + 256;
    world.loop.run_until([&] { return world.done >= target; }, 20s);
  }
  std::uint64_t calls = world.done - start;
  state.counters["ns_per_call"] = benchmark::Counter(
      static_cast<double>(calls), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.SetItemsProcessed(static_cast<std::int64_t>(calls));
  if (size > 4096) state.SetBytesProcessed(static_cast<std::int64_t>(calls * size));
  stop = true;
  world.loop.run_until([&] { return false; }, 50ms);
}

void BM_SmallCall(benchmark::State& state) {
  run(state, static_cast<Way>(state.range(0)), 1, 64, static_cast<int>(state.range(1)));
}
void BM_LargeReply(benchmark::State& state) {
  run(state, static_cast<Way>(state.range(0)), 10, static_cast<std::uint32_t>(state.range(1)), 8);
}
void BM_LargeCall(benchmark::State& state) {
  run(state, static_cast<Way>(state.range(0)), 1, static_cast<std::uint32_t>(state.range(1)), 8);
}
BENCHMARK(BM_SmallCall)
    ->ArgNames({"session", "depth"})
    ->ArgsProduct({{kPlain, kHeads, kAll, kTls}, {1, 16, 128}})
    ->MeasureProcessCPUTime();
BENCHMARK(BM_LargeReply)
    ->ArgNames({"session", "size"})
    ->ArgsProduct({{kPlain, kHeads, kAll, kTls}, {64 << 10, 1 << 20}})
    ->MeasureProcessCPUTime();
BENCHMARK(BM_LargeCall)
    ->ArgNames({"session", "size"})
    ->ArgsProduct({{kPlain, kHeads, kAll, kTls}, {64 << 10, 1 << 20}})
    ->MeasureProcessCPUTime();

Task<void> dispatch_once(Dispatcher& dispatcher, Buffer record, std::uint64_t& replies) {
  auto reply = co_await dispatcher.dispatch(std::move(record), {}, 4, {.member = true});
  if (reply) ++replies;
}

void BM_Dispatch(benchmark::State& state) {
  World world;
  Request request{.to = {}, .program = EchoProgram::kNumber, .version = 2, .procedure = 1};
  request.arguments = Buffer(64);
  request.credential = AuthSys{.machine_name = "client", .uid = 1, .gid = 1};
  Caller caller{.member = state.range(0) != 0};
  Buffer record = encode_request(request, Xid{1}, caller, 0);
  std::uint64_t replies = 0;
  for (auto _ : state) spawn(dispatch_once(world.dispatcher, record.clone(), replies));
  if (replies != static_cast<std::uint64_t>(state.iterations()))
    state.SkipWithError("a call was not answered");
}
BENCHMARK(BM_Dispatch)->ArgName("member")->Arg(0)->Arg(1);

// What it costs to time a call: a look at the clock at its end, and its place in a histogram.
void BM_TimeOfACall(benchmark::State& state) {
  static Metrics metrics;
  static EpollLoop loop;
  Histogram& histogram = metrics.histogram("call_seconds", "time of calls of a benchmark");
  const MonoTime began = loop.now();
  for (auto _ : state) histogram.observe(loop.now_exactly() - began);
  benchmark::DoNotOptimize(histogram.sum());
}
BENCHMARK(BM_TimeOfACall)->Threads(1)->Threads(2);

// And the text of a server's metrics: so many histograms, and ten times as many counters.
void BM_TextOfMetrics(benchmark::State& state) {
  Metrics metrics;
  for (int i = 0; i < state.range(0); ++i) {
    const std::string label = std::to_string(i);
    metrics.histogram("call_seconds", "time of calls of a benchmark", {{"procedure", label}}).observe(3ms);
    for (int j = 0; j < 10; ++j)
      metrics.counter("calls_total", "calls of a benchmark", {{"procedure", fmt::format("{}.{}", i, j)}})
          .add();
  }
  std::size_t bytes = 0;
  for (auto _ : state) bytes = metrics.text().size();
  state.counters["bytes"] = static_cast<double>(bytes);
}
BENCHMARK(BM_TextOfMetrics)->Arg(21)->Arg(1000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace slice::rpc

BENCHMARK_MAIN();
