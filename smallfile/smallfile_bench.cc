// What the small-file server costs inside one process: CPU of cached reads and unstable writes, beside a NULL
// call through the same dispatcher; stable writes and saving on a real disk (the folder SLICE_BENCH_FOLDER,
// or a new one in the working directory).
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "common/manual_loop.h"
#include "rpc/epoll_loop.h"
#include "rpc/in_process.h"
#include "smallfile/server.h"
#include "storage/memory_disk.h"
#include "storage/memory_store.h"
#include "storage/posix_disk.h"
#include "storage/rocks_store.h"

namespace slice::smallfile {
namespace {

constexpr std::size_t kSize = 8192;

// Every file is a superuser's regular file of 64 KiB.
class SameAuthority : public rpc::Program {
 public:
  std::uint32_t number() const override { return wire::kAuthorityProgram; }
  std::uint32_t version() const override { return wire::kInternalVersion; }
  Task<rpc::Outcome> handle(const rpc::Call&, rpc::XdrWriter& results) override {
    wire::FetchResult result{.attributes = {.mode = 0644, .nlink = 1, .size = 65536}};
    encode(results, result);
    co_return rpc::Outcome::kReply;
  }
};

EnsembleConfig bench_config() {
  EnsembleConfig config;
  config.exports.push_back({.squash = ExportConfig::Squash::kNone});
  std::uint32_t index = 0;
  for (ServerRole role :
       {ServerRole::kDirectory, ServerRole::kSmallFile, ServerRole::kStorage, ServerRole::kCoordinator}) {
    ServerConfig server;
    server.name = fmt::format("server{}", index);
    server.role = role;
    server.index = index++;
    server.address = 0x0a4d0202 + (server.index << 8);
    config.servers.push_back(server);
  }
  return config;
}

// A whole server in memory: records in, replies out.
struct Bench {
  ManualLoop loop;
  EnsembleConfig config = bench_config();
  const ServerConfig& self = config.servers[1];
  Metrics metrics;
  rpc::InProcessNetwork network{loop, config.ensemble_key, rpc::Endpoint{self.address, self.port},
                                self.index};
  storage::MemoryDisk disk{loop};
  storage::MemoryMedium medium;
  routing::HandleCodec handles{config};
  routing::TableHolder tables{
      routing::RoutingTables::make(config, routing::RoutingTables::initial(config)).value()};
  LiveSettings settings{settings_of(config)};
  service::VerifierClock verifier{Verifier{1}};
  CrashPoints never;
  service::ServiceContext context{.loop = loop,
                                  .channel = network,
                                  .metrics = metrics,
                                  .disk = disk,
                                  .config = config,
                                  .self = self,
                                  .handles = handles,
                                  .tables = tables,
                                  .settings = settings,
                                  .verifier = verifier,
                                  .random = [] { return std::uint64_t{4}; },
                                  .crash = never};
  SameAuthority authority;
  rpc::Dispatcher directory{metrics};
  SmallFileServer server{context,
                         [this](service::ServiceContext&) -> Result<std::unique_ptr<storage::KvStore>> {
                           return std::make_unique<storage::MemoryStore>(loop, medium);
                         }};
  rpc::Dispatcher dispatcher{metrics};

  Bench() {
    directory.add(authority);
    network.attach({config.servers[0].address, config.servers[0].port}, &directory);
    bool started = false;
    spawn(start(started));
    loop.run_until([&] { return started; });
    for (rpc::Program* program : server.programs()) dispatcher.add(*program);
  }
  Task<void> start(bool& started) {
    Status status = co_await server.start();
    if (!status) std::abort();
    started = true;
  }
  template <class Args>
  Buffer record(nfs3::Procedure procedure, const Args& args) {
    rpc::XdrWriter arguments, credential;
    nfs3::encode_arguments(arguments, args);
    rpc::encode_auth_sys(credential, {.machine_name = "client", .uid = 0, .gid = 0});
    rpc::XdrWriter out;
    rpc::encode_call(out, {.xid = {1},
                           .program = nfs3::kProgram,
                           .version = nfs3::kVersion,
                           .procedure = static_cast<std::uint32_t>(procedure),
                           .credential_flavor = rpc::kAuthSys,
                           .credential = credential.view().subspan(8),
                           .arguments = arguments.view()});
    return out.take();
  }
  static Task<void> run(rpc::Dispatcher& dispatcher, Buffer record, bool& done, std::size_t& bytes) {
    auto reply = co_await dispatcher.dispatch(std::move(record), {0x0a4d0102, 700}, 4);
    bytes += reply ? reply->size() : 0;
    done = true;
  }
  void call(const Buffer& record, benchmark::State& state) {
    bool done = false;
    std::size_t bytes = 0;
    spawn(run(dispatcher, record.clone(), done, bytes));
    if (!done) loop.run_until([&] { return done; });
    if (bytes < 24) state.SkipWithError("no reply");
  }
  routing::HandleBytes handle(std::uint64_t id) {
    auto bytes = handles.mint({.fileid = {id}, .directory_site = {0}, .generation = 1});
    store_be(bytes.data() + 32, std::uint64_t{1} << 63);  // as a proxy stamps it
    return bytes;
  }
};

void null_call(benchmark::State& state) {
  Bench bench;
  rpc::XdrWriter out;
  rpc::encode_call(out, {.xid = {1}, .program = nfs3::kProgram, .version = nfs3::kVersion, .procedure = 0});
  Buffer record = out.take();
  for (auto _ : state) bench.call(record, state);
}
BENCHMARK(null_call);

void read_cached_8k(benchmark::State& state) {
  Bench bench;
  std::string data(65536, 'x');
  auto handle = bench.handle(1);
  bench.call(
      bench.record(nfs3::Procedure::kWrite,
                   nfs3::WriteArgs{.file = handle, .offset = 0, .count = 65536, .data = as_bytes(data)}),
      state);
  Buffer record =
      bench.record(nfs3::Procedure::kRead, nfs3::ReadArgs{.file = handle, .offset = 8192, .count = kSize});
  for (auto _ : state) bench.call(record, state);
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * kSize));
}
BENCHMARK(read_cached_8k);

void write_unstable_8k(benchmark::State& state) {
  Bench bench;
  std::string data(kSize, 'x');
  std::vector<routing::HandleBytes> handles;
  std::vector<Buffer> records;
  for (std::uint64_t i = 0; i < 64; ++i) {
    handles.push_back(bench.handle(i));
    records.push_back(bench.record(
        nfs3::Procedure::kWrite,
        nfs3::WriteArgs{.file = handles.back(), .offset = 8192, .count = kSize, .data = as_bytes(data)}));
  }
  std::size_t next = 0;
  for (auto _ : state) bench.call(records[next++ % records.size()], state);
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * kSize));
}
BENCHMARK(write_unstable_8k);

// A store on a real disk, for what waits for it.
struct DiskBench {
  std::filesystem::path folder;
  Metrics metrics;
  rpc::EpollLoop loop;
  std::unique_ptr<storage::PosixDisk> disk;
  std::unique_ptr<storage::RocksStore> records;
  std::unique_ptr<DiskZoneStore> zones;
  std::unique_ptr<Store> store;

  DiskBench() {
    const char* base = std::getenv("SLICE_BENCH_FOLDER");
    folder =
        std::filesystem::path(base != nullptr ? base : ".") / fmt::format("smallfile_bench.{}", getpid());
    std::filesystem::create_directories(folder);
    disk = storage::PosixDisk::open(loop, folder.string()).value();
    records = storage::RocksStore::open(loop, metrics, {.folder = (folder / "maps").string()}).value();
    zones = std::make_unique<DiskZoneStore>(loop, *disk);
    store = wait(Store::open(
                     loop, *disk, *records, *zones, metrics,
                     {.site_of = [](FileId id) { return SiteId{static_cast<std::uint32_t>(id.value % 64)}; },
                      .cache_bytes = 256 << 20}))
                .value();
  }
  ~DiskBench() {
    (void)wait(store->save());
    store.reset();
    zones.reset();
    records.reset();
    disk.reset();
    std::filesystem::remove_all(folder);
  }
  template <class T>
  T wait(Task<T> task) {
    std::optional<T> result;
    spawn(std::move(task), result);
    loop.run_until([&] { return result.has_value(); }, std::chrono::minutes(1));
    return std::move(*result);
  }
  static Task<void> writer(Store& store, std::uint64_t id, ByteView data, bool stable, std::size_t& left,
                           std::size_t& failed) {
    auto written = co_await store.write({id}, {.offset = 0, .data = data, .stable = stable});
    failed += written ? 0 : 1;
    --left;
  }
  // `count` writes at once, to as many files.
  void write_all(std::uint64_t first, std::size_t count, ByteView data, bool stable,
                 benchmark::State& state) {
    std::size_t left = count, failed = 0;
    for (std::size_t i = 0; i < count; ++i) spawn(writer(*store, first + i, data, stable, left, failed));
    loop.run_until([&] { return left == 0; }, std::chrono::minutes(1));
    if (failed > 0 || left > 0) state.SkipWithError("a write failed");
  }
};

void write_stable_8k(benchmark::State& state) {
  DiskBench bench;
  std::string data(kSize, 'x');
  auto at_once = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) bench.write_all(1, at_once, as_bytes(data), true, state);
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(write_stable_8k)->Arg(1)->Arg(16)->Arg(64)->UseRealTime();

// New files of 4 KiB from memory to zones and map records.
void save_new_files_4k(benchmark::State& state) {
  DiskBench bench;
  std::string data(4096, 'x');
  std::uint64_t next = 1;
  auto files = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) {
    state.PauseTiming();
    bench.write_all(next, files, as_bytes(data), false, state);
    next += files;
    state.ResumeTiming();
    if (!bench.wait(bench.store->save())) state.SkipWithError("saving failed");
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(save_new_files_4k)->Arg(1000)->UseRealTime();

}  // namespace
}  // namespace slice::smallfile

BENCHMARK_MAIN();
