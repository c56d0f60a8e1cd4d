// kill -9 of a process that writes to a store on a real folder, again and again: every stable write that it
// acknowledged is there, and nothing is taken for corruption.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

#include "common/log.h"
#include "common/testing/temporary_folder.h"
#include "rpc/epoll_loop.h"
#include "storage/posix_disk.h"
#include "storagenode/testing/store_harness.h"

namespace slice::storagenode {
namespace {

constexpr std::size_t kPlaces = 64;
constexpr std::size_t kSize = 6'000;  // not a multiple of a block

std::uint64_t offset_of(std::size_t place) {
  return place * 7'001 + (place % 4) * (kSegment - 20'000);
}

class RealStore {
 public:
  explicit RealStore(const std::string& folder)
      : disk(std::move(storage::PosixDisk::open(loop, folder).value())),
        store(loop, *disk, metrics, {.reserve_bytes = 0, .clean_period = std::chrono::milliseconds(200)},
              nullptr) {
    opened = run(store.open());
  }
  template <class T>
  T run(Task<T> task) {
    std::optional<T> slot;
    spawn(keep_result(std::move(task), slot));
    if (!slot) loop.run_until([&slot] { return slot.has_value(); }, std::chrono::seconds(60));
    return std::move(*slot);
  }
  void stop() {
    bool ended = false;
    spawn(note_end(store.stop(), ended));
    loop.run_until([&ended] { return ended; }, std::chrono::seconds(60));
  }
  rpc::EpollLoop loop;
  Metrics metrics;
  std::unique_ptr<storage::PosixDisk> disk;
  ObjectStore store;
  Status opened;
};

struct Acknowledged {
  std::uint32_t place, version;
};

Buffer content(std::uint32_t place, std::uint32_t version) {
  Buffer bytes = pattern(kSize, (std::uint64_t{place} << 32) | version);
  store_be(bytes.data(), version);
  return bytes;
}

// The child: writes new versions of places, in turns stable and unstable, and tells of stable ones.
[[noreturn]] void write_until_killed(const std::string& folder, int tell, std::uint32_t first_version) {
  RealStore real(folder);
  if (!real.opened) ::_exit(1);
  std::mt19937_64 random(first_version);
  for (std::uint32_t version = first_version;; ++version) {
    auto place = static_cast<std::uint32_t>(random() % kPlaces);
    Buffer bytes = content(place, version);
    bool sync = random() % 2 == 0;
    auto written = real.run(real.store.write(file_object(1), offset_of(place), bytes.view(), {.sync = sync}));
    if (!written) ::_exit(2);
    Acknowledged said{place, version};
    if (sync && ::write(tell, &said, sizeof said) != sizeof said) ::_exit(3);
  }
}

TEST(Kill, EveryAcknowledgedStableWriteIsThere) {
  configure_log("test", LogLevel::kError);
  const TemporaryFolder temporary;
  const std::string& folder = temporary.path();
  std::array<std::uint32_t, kPlaces> stable{};
  std::mt19937_64 random(1);
  std::uint64_t acknowledged = 0;
  for (std::uint32_t life = 0; life < 8; ++life) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) write_until_killed(folder, ends[1], 1 + life * 1'000'000);
    ::close(ends[1]);
    std::this_thread::sleep_for(std::chrono::milliseconds(150 + random() % 250));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself with " << WEXITSTATUS(status);
    for (Acknowledged said; ::read(ends[0], &said, sizeof said) == sizeof said;) {
      stable[said.place] = said.version;
      ++acknowledged;
    }
    ::close(ends[0]);

    RealStore real(folder);
    ASSERT_TRUE(real.opened) << real.opened.error().message;
    for (std::uint32_t place = 0; place < kPlaces; ++place) {
      if (stable[place] == 0) continue;
      Buffer into(kSize);
      auto got = real.run(real.store.read(file_object(1), offset_of(place), into.span()));
      ASSERT_TRUE(got) << got.error().message;
      auto version = load_be<std::uint32_t>(into.data());
      ASSERT_GE(version, stable[place]) << "place " << place;
      stable[place] = version;
    }
    EXPECT_EQ(real.metrics.counter("store_checksum_errors_total").value(), 0u);
    real.stop();
  }
  EXPECT_GT(acknowledged, 20u);
}

}  // namespace
}  // namespace slice::storagenode
