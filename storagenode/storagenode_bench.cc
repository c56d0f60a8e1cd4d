// The store alone, on a real folder: what a READ, WRITE and COMMIT cost before any network. The folder is
// made below $SLICE_BENCH_FOLDER, else below the folder for temporary files, and removed at the end.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "common/crc32c.h"
#include "rpc/epoll_loop.h"
#include "storage/posix_disk.h"
#include "storagenode/object_store.h"

namespace slice::storagenode {
namespace {

Buffer filled(std::size_t n) {
  Buffer bytes(n);
  for (std::size_t i = 0; i < n; ++i) bytes.data()[i] = static_cast<std::uint8_t>(i * 131 + i / 977);
  return bytes;
}

class Bench {
 public:
  Bench() {
    const char* wanted = std::getenv("SLICE_BENCH_FOLDER");  // NOLINT(concurrency-mt-unsafe): before threads
    std::filesystem::path below = wanted != nullptr ? wanted : std::filesystem::temp_directory_path();
    std::string made = below / "slice-store-bench-XXXXXX";
    folder = ::mkdtemp(made.data());
    disk = std::move(storage::PosixDisk::open(loop, folder).value());
    store = std::make_unique<ObjectStore>(loop, *disk, metrics, ObjectStore::Options{.reserve_bytes = 0},
                                          nullptr);
    if (!run(store->open())) std::abort();
  }
  ~Bench() {
    bool ended = false;
    spawn([](ObjectStore& stopping, bool& done) -> Task<void> {
      co_await stopping.stop();
      done = true;
    }(*store, ended));
    loop.run_until([&ended] { return ended; }, std::chrono::seconds(60));
    store.reset();
    disk.reset();
    std::filesystem::remove_all(folder);
  }
  template <class T>
  T run(Task<T> task) {
    std::optional<T> slot;
    spawn([](Task<T> inner, std::optional<T>& into) -> Task<void> {
      into.emplace(co_await std::move(inner));
    }(std::move(task), slot));
    if (!slot) loop.run_until([&slot] { return slot.has_value(); }, std::chrono::seconds(60));
    return std::move(*slot);
  }

  rpc::EpollLoop loop;
  Metrics metrics;
  std::string folder;
  std::unique_ptr<storage::PosixDisk> disk;
  std::unique_ptr<ObjectStore> store;
  ObjectName name{VolumeId{1}, FileId{1}, ObjectKind::kFile};
};

constexpr std::uint64_t kFile = 256 << 20;

void checksum(benchmark::State& state) {
  Buffer bytes = filled(static_cast<std::size_t>(state.range(0)));
  std::vector<std::uint32_t> sums(bytes.size() / kBlock);
  for (auto _ : state) {
    compute_sums(bytes.view(), 1, 0, sums.data());
    benchmark::DoNotOptimize(sums.data());
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void copy(benchmark::State& state) {
  Buffer bytes = filled(static_cast<std::size_t>(state.range(0))), into(bytes.size());
  for (auto _ : state) {
    std::memcpy(into.data(), bytes.data(), bytes.size());
    benchmark::DoNotOptimize(into.data());
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void fill(Bench& bench) {
  Buffer bytes = filled(1 << 20);
  for (std::uint64_t at = 0; at < kFile; at += bytes.size()) {
    if (!bench.run(bench.store->write(bench.name, at, bytes.view(), {}))) std::abort();
  }
  if (!bench.run(bench.store->commit(bench.name))) std::abort();
}

void read_cached(benchmark::State& state) {
  Bench bench;
  fill(bench);
  Buffer into(static_cast<std::size_t>(state.range(0)));
  std::uint64_t at = 0;
  for (auto _ : state) {
    if (!bench.run(bench.store->read(bench.name, at, into.span()))) state.SkipWithError("read failed");
    at = (at + into.size()) % kFile;
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

// What the system alone takes for the same, to compare with.
void pread_cached(benchmark::State& state) {
  Bench bench;
  fill(bench);
  Buffer into(static_cast<std::size_t>(state.range(0)));
  auto file = bench.run(bench.disk->open(head_path(bench.name), storage::Disk::Mode::kMustExist));
  std::uint64_t at = 0;
  for (auto _ : state) {
    if (!bench.run((*file)->read(kDataStart + at, into.span()))) state.SkipWithError("read failed");
    at = (at + into.size()) % kFile;
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void write_unstable(benchmark::State& state) {
  Bench bench;
  Buffer bytes = filled(static_cast<std::size_t>(state.range(0)));
  std::uint64_t at = 0;
  for (auto _ : state) {
    if (!bench.run(bench.store->write(bench.name, at, bytes.view(), {}))) state.SkipWithError("write failed");
    at = (at + bytes.size()) % kFile;
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void write_sync(benchmark::State& state) {
  Bench bench;
  fill(bench);
  Buffer bytes = filled(static_cast<std::size_t>(state.range(0)));
  std::uint64_t at = 0;
  for (auto _ : state) {
    if (!bench.run(bench.store->write(bench.name, at, bytes.view(), {.sync = true})))
      state.SkipWithError("failed");
    at = (at + bytes.size() * 17) % kFile;
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

// A new object of 100 KiB, committed: what a file just over the threshold costs.
void create_and_commit(benchmark::State& state) {
  Bench bench;
  Buffer bytes = filled(100 << 10);
  for (auto _ : state) {
    ++bench.name.fileid.value;
    bool ok = bench.run(bench.store->write(bench.name, 64 << 10, bytes.view(), {})).has_value() &&
              bench.run(bench.store->commit(bench.name)).has_value();
    if (!ok) state.SkipWithError("failed");
  }
}

BENCHMARK(checksum)->Arg(4096)->Arg(65536)->Arg(1 << 20);
BENCHMARK(copy)->Arg(4096)->Arg(65536)->Arg(1 << 20);
BENCHMARK(pread_cached)->Arg(8192)->Arg(65536)->Arg(1 << 20);
BENCHMARK(read_cached)->Arg(8192)->Arg(65536)->Arg(1 << 20);
BENCHMARK(write_unstable)->Arg(8192)->Arg(65536)->Arg(1 << 20)->UseRealTime();
BENCHMARK(write_sync)->Arg(8192)->UseRealTime();
BENCHMARK(create_and_commit)->UseRealTime();

}  // namespace
}  // namespace slice::storagenode

BENCHMARK_MAIN();
