// The store alone, on a real folder: what a READ, WRITE and COMMIT cost before any network. The folder is
// made below $SLICE_BENCH_FOLDER, else below the folder for temporary files, and removed at the end.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>

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
  explicit Bench(storage::PosixDisk::Options options = {}, std::uint64_t prefetch_bytes = 256 << 10) {
    const char* wanted = std::getenv("SLICE_BENCH_FOLDER");  // NOLINT(concurrency-mt-unsafe): before threads
    std::filesystem::path below = wanted != nullptr ? wanted : std::filesystem::temp_directory_path();
    std::string made = below / "slice-store-bench-XXXXXX";
    folder = ::mkdtemp(made.data());
    prefetch = prefetch_bytes;
    open(options);
  }
  ~Bench() {
    close();
    std::filesystem::remove_all(folder);
  }
  void reopen(storage::PosixDisk::Options options) {
    close();
    open(options);
  }
  void open(storage::PosixDisk::Options options) {
    disk = std::move(storage::PosixDisk::open(loop, folder, options).value());
    store = std::make_unique<ObjectStore>(
        loop, *disk, metrics, ObjectStore::Options{.reserve_bytes = 0, .prefetch_bytes = prefetch}, nullptr);
    if (!run(store->open())) std::abort();
  }
  void close() {
    bool ended = false;
    spawn([](ObjectStore& stopping, bool& done) -> Task<void> {
      co_await stopping.stop();
      done = true;
    }(*store, ended));
    loop.run_until([&ended] { return ended; }, std::chrono::seconds(60));
    store.reset();
    disk.reset();
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
  std::uint64_t prefetch = 0;
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

void forget_pages(Bench& bench) {
  int fd = ::open((bench.folder + "/" + head_path(bench.name)).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 || ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0) std::abort();
  ::close(fd);
}

Task<void> read_every(Bench& bench, std::uint64_t first, std::uint64_t step, std::size_t size,
                      std::uint64_t& ended) {
  Buffer into(size);
  for (std::uint64_t at = first * size; at < kFile; at += step * size) {
    if (!co_await bench.store->read(bench.name, at, into.span())) std::abort();
  }
  ++ended;
}

Task<void> read_places(Bench& bench, const std::vector<std::uint64_t>& places, std::size_t size,
                       std::uint64_t& next, std::uint64_t& ended) {
  Buffer memory;
  const ByteSpan into{memory.extend_aligned(size, storage::kDirectAlignment), size};
  while (next < places.size()) {
    if (!co_await bench.store->read(bench.name, places[next++], into)) std::abort();
  }
  ++ended;
}

// The whole file in order out of the disk, with a number of reads of 1 MiB under way: by io_uring or by
// threads.
void read_cold(benchmark::State& state) {
  Bench bench({.io_uring = state.range(0) != 0});
  fill(bench);
  auto outstanding = static_cast<std::uint64_t>(state.range(1));
  for (auto _ : state) {
    state.PauseTiming();
    forget_pages(bench);
    state.ResumeTiming();
    std::uint64_t ended = 0;
    for (std::uint64_t i = 0; i < outstanding; ++i) spawn(read_every(bench, i, outstanding, 1 << 20, ended));
    if (!bench.loop.run_until([&] { return ended == outstanding; }, std::chrono::seconds(60))) std::abort();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kFile));
}

// At random, none of it in memory, 16 reads under way: past the page cache or through it.
void read_cold_at_random(benchmark::State& state) {
  Bench bench({.direct_reads = state.range(0) != 0}, 0);
  fill(bench);
  const auto size = static_cast<std::uint64_t>(state.range(1)) << 10;
  constexpr std::uint64_t kUnderWay = 16;
  std::vector<std::uint64_t> places(kFile / size);
  for (std::uint64_t i = 0; i < places.size(); ++i) places[i] = i * size;
  std::shuffle(places.begin(), places.end(), std::mt19937_64(1));
  for (auto _ : state) {
    state.PauseTiming();
    forget_pages(bench);
    bench.reopen({.direct_reads = state.range(0) != 0});  // it has not been asked for any of it
    state.ResumeTiming();
    std::uint64_t next = 0, ended = 0;
    for (std::uint64_t i = 0; i < kUnderWay; ++i) spawn(read_places(bench, places, size, next, ended));
    if (!bench.loop.run_until([&] { return ended == kUnderWay; }, std::chrono::seconds(60))) std::abort();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kFile));
}

// One reader, one read under way, in order over every third stripe of 64 KiB: what a node of three has of a
// file.
void read_cold_stripes(benchmark::State& state) {
  constexpr std::uint64_t kStripe = 64 << 10;
  Bench bench({}, static_cast<std::uint64_t>(state.range(0)) << 10);
  Buffer bytes = filled(kStripe);
  for (std::uint64_t at = 0; at < kFile; at += 3 * kStripe) {
    if (!bench.run(bench.store->write(bench.name, at, bytes.view(), {}))) std::abort();
  }
  if (!bench.run(bench.store->commit(bench.name))) std::abort();
  for (auto _ : state) {
    state.PauseTiming();
    forget_pages(bench);
    state.ResumeTiming();
    for (std::uint64_t at = 0; at < kFile; at += 3 * kStripe) {
      if (!bench.run(bench.store->read(bench.name, at, bytes.span()))) std::abort();
    }
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kFile / 3));
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
BENCHMARK(read_cold)
    ->ArgNames({"io_uring", "outstanding"})
    ->ArgsProduct({{0, 1}, {1, 4, 16}})
    ->MeasureProcessCPUTime()
    ->UseRealTime();
BENCHMARK(read_cold_at_random)
    ->ArgNames({"direct", "KiB"})
    ->ArgsProduct({{0, 1}, {32, 64, 1024}})
    ->MeasureProcessCPUTime()
    ->UseRealTime();
BENCHMARK(read_cold_stripes)
    ->ArgName("prefetch_KiB")
    ->Arg(0)
    ->Arg(256)
    ->MeasureProcessCPUTime()
    ->UseRealTime();
BENCHMARK(write_unstable)->Arg(8192)->Arg(65536)->Arg(1 << 20)->UseRealTime();
BENCHMARK(write_sync)->Arg(8192)->UseRealTime();
BENCHMARK(create_and_commit)->UseRealTime();

}  // namespace
}  // namespace slice::storagenode

BENCHMARK_MAIN();
