// A RocksStore whose files were cut at a border, which RocksDB takes for their end; and one that is killed.
#include "storage/rocks_guard.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "common/manual_loop.h"
#include "common/testing/temporary_folder.h"
#include "storage/rocks_store.h"
#include "storage/testing/real_time.h"

namespace slice::storage {
namespace {

class RocksGuardTest : public testing::Test {
 protected:
  RocksGuardTest() { open(); }
  void open() {
    store_.reset();
    store_ = std::move(RocksStore::open(loop_, metrics_, {.folder = path_ + "/cells"}).value());
  }
  LogPosition put(const std::string& key, const std::string& value) {
    WriteBatch batch;
    batch.put(key, value);
    return store_->apply(batch).value();
  }
  std::optional<std::string> get(std::string_view key) { return store_->get(key).value(); }
  Status wait_durable(LogPosition position) {
    std::optional<Status> ended;
    spawn(store_->durable(position), ended);
    EXPECT_TRUE(run_in_real_time(loop_, [&] { return ended.has_value(); }));
    return *ended;
  }

  ManualLoop loop_;
  Metrics metrics_;
  const TemporaryFolder folder_;
  const std::string& path_ = folder_.path();
  std::unique_ptr<KvStore> store_;
};

class LostEndTest : public RocksGuardTest {
 protected:
  void SetUp() override {
    // Small, so that a log ends and another begins.
    store_.reset();
    reopen(256 << 10);
  }
  void reopen(std::uint64_t memory) {
    store_ =
        std::move(RocksStore::open(loop_, metrics_, {.folder = cells(), .memory_bytes = memory}).value());
  }
  std::string cells() const { return path_ + "/cells"; }
  void add(int from, int to) {
    for (int i = from; i < to; ++i) put("key" + std::to_string(i), std::string(100, 'v'));
    ASSERT_TRUE(wait_durable(put("last", std::to_string(to))).has_value());
  }
  std::string newest(std::string_view text) const {
    std::string found;
    for (const auto& entry : std::filesystem::directory_iterator(cells())) {
      std::string path = entry.path();
      if (path.find(text) != std::string::npos && path > found) found = path;
    }
    return found;
  }
  // As it is now, its store still open: what kill -9 leaves.
  void kill() {
    std::string copy = path_ + "/copy";
    std::filesystem::remove_all(copy);
    std::filesystem::create_directory(copy);
    std::filesystem::copy(cells(), copy + "/cells", std::filesystem::copy_options::recursive);
    std::filesystem::copy(cells() + ".end", copy + "/cells.end");
    store_.reset();
    std::filesystem::remove_all(cells());
    std::filesystem::remove(cells() + ".end");
    std::filesystem::rename(copy + "/cells", cells());
    std::filesystem::rename(copy + "/cells.end", cells() + ".end");
  }
  void must_refuse(const std::string& why) {
    for (bool read_only : {true, false}) {
      RocksStore::Options options{.folder = cells()};
      Status opened;
      if (read_only) {
        if (auto store = open_rocks_read_only(options); !store) opened = fail(store.error());
      } else if (auto store = RocksStore::open(loop_, metrics_, options); !store) {
        opened = fail(store.error());
      }
      ASSERT_FALSE(opened) << why << (read_only ? " (read only)" : "");
      EXPECT_EQ(opened.error().code, Errc::kCorrupt);
      EXPECT_NE(opened.error().message.find(why), std::string::npos) << opened.error().message;
      EXPECT_NE(opened.error().message.find("remove " + cells() + ".end"), std::string::npos);
    }
  }
};

TEST_F(LostEndTest, ALogThatWasCutAfterACleanStopIsRefused) {
  add(0, 10);
  store_.reset();
  // RocksDB's header of a record and of a batch, the kind, two lengths, key and value.
  constexpr std::uintmax_t kEach = 7 + 12 + 3 + 4 + 100, kLast = 7 + 12 + 3 + 4 + 2;
  auto size = std::filesystem::file_size(newest(".log"));
  ASSERT_EQ(size, 10 * kEach + kLast);
  std::vector<std::uintmax_t> cuts{size - 1, 5 * kEach + 3, 1};
  for (std::uintmax_t record = 0; record <= 10; ++record) cuts.push_back(record * kEach);
  std::filesystem::copy(path_, path_ + "-whole", std::filesystem::copy_options::recursive);
  for (std::uintmax_t cut : cuts) {
    std::filesystem::resize_file(newest(".log"), cut);
    must_refuse("changes up to 11 were durable");
    std::filesystem::remove_all(path_);
    std::filesystem::copy(path_ + "-whole", path_, std::filesystem::copy_options::recursive);
  }
  std::filesystem::remove_all(path_ + "-whole");
  open();
  EXPECT_EQ(get("last"), "10");
  store_.reset();
}

TEST_F(LostEndTest, AStoreThatIsGoneIsNotMadeAnew) {
  add(0, 10);
  store_.reset();
  std::filesystem::remove_all(cells());
  must_refuse("its manifest was cut or lost");
  std::filesystem::remove(cells() + ".end");
  open();  // what its message recommends
  EXPECT_EQ(get("last"), std::nullopt);
}

TEST_F(LostEndTest, TheEndIsRecordedWithinASecond) {
  add(0, 10);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  auto known = std::filesystem::file_size(newest(".log"));
  add(10, 20);
  kill();
  // A part that nobody knows to be durable may be missing: it could as well have been lost in a crash.
  std::filesystem::resize_file(newest(".log"), known);
  open();
  EXPECT_EQ(get("last"), "10");
  add(20, 30);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  kill();
  std::filesystem::resize_file(newest(".log"), std::filesystem::file_size(newest(".log")) - 1);
  must_refuse("its log was cut or lost");
}

TEST_F(LostEndTest, AManifestThatWasCutIsRefused) {
  add(0, 20000);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  store_.reset();
  auto size = std::filesystem::file_size(newest("MANIFEST"));
  for (std::uintmax_t cut : {size - 1, size / 2, std::uintmax_t{0}}) {
    std::filesystem::resize_file(newest("MANIFEST"), cut);
    must_refuse("its manifest was cut or lost");
  }
}

// RocksDB takes a record of the last block that seems too long for the file's end.
TEST_F(LostEndTest, ADamagedManifestIsRefusedWhereverItIs) {
  add(0, 20000);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  store_.reset();
  std::string path = newest("MANIFEST");
  auto size = std::filesystem::file_size(path);
  ASSERT_GT(size, 0u);
  for (std::uintmax_t at = 0; at < size; ++at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    char was = static_cast<char>(file.get());
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(was ^ 0x40)).flush();
    auto opened = open_rocks_read_only({.folder = cells()});
    ASSERT_FALSE(opened) << "byte " << at;
    EXPECT_NE(opened.error().message.find("MANIFEST-"), std::string::npos) << opened.error().message;
    file.seekp(static_cast<std::streamoff>(at));
    file.put(was).flush();
  }
  ASSERT_TRUE(open_rocks_read_only({.folder = cells()}));
}

// Its log has one record, which RocksDB takes for a torn one when it is damaged.
TEST_F(LostEndTest, TheEndIsRecordedBeforeACleanStop) {
  ASSERT_TRUE(wait_durable(put("only", "value")).has_value());
  ASSERT_TRUE(store_->record_end());
  put("later", "value");
  kill();
  std::filesystem::resize_file(newest(".log"), 10);
  must_refuse("changes up to 1 were durable");
}

// What a start must replay is bounded, whatever memory there is and however much was written.
TEST_F(LostEndTest, TheLogsStaySmall) {
  store_.reset();
  reopen(1 << 30);
  auto logs = [this] {
    std::uintmax_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(cells())) {
      std::error_code gone;
      const std::uintmax_t size = entry.file_size(gone);
      if (entry.path().extension() == ".log" && !gone) bytes += size;
    }
    return bytes;
  };
  for (int i = 0; i < 70; ++i) {
    for (int j = 0; j < 1000; ++j) put(fmt::format("key{}", i * 1000 + j), std::string(1000, 'v'));
    ASSERT_TRUE(wait_durable(put("last", std::to_string(i))).has_value());
    // Two in memory, and one that is being deleted; others wait for that where the machine is busy.
    ASSERT_TRUE(run_in_real_time(loop_, [&] { return logs() <= 3 * RocksStore::kMostMemory; })) << logs();
  }
  store_.reset();
  reopen(1 << 30);
  EXPECT_EQ(get("key69999"), std::string(1000, 'v'));
}

// A process of its own, which is killed: it numbers keys, and tells in ACKED how many are durable.
class KilledRocksTest : public RocksGuardTest {
 protected:
  static constexpr char kFolder[] = "SLICE_KILLED_ROCKS";
  static RocksStore::Options options(const std::string& folder) {
    return {.folder = folder + "/cells", .memory_bytes = 256 << 10};
  }
  static std::string key(int i) { return fmt::format("key{:08}", i); }

  // Loads the store in a new process and kills it after a while.
  void load_and_kill(std::chrono::milliseconds after) {
    std::string acked = path_ + "/acked";
    std::ofstream(acked).flush();
    pid_t child = ::fork();
    if (child == 0) {
      ::setenv(kFolder, path_.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): the only thread
      ::execl("/proc/self/exe", "rocks_guard_test", "--gtest_filter=*DISABLED_Child",
              "--gtest_also_run_disabled_tests", nullptr);
      ::_exit(1);
    }
    ASSERT_TRUE(run_in_real_time(loop_, [&] { return std::filesystem::file_size(acked) > 0; }));
    std::this_thread::sleep_for(after);
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  }
  int acked() const {
    std::ifstream file(path_ + "/acked", std::ios::binary);
    int last = 0, at = 0;
    while (file.read(reinterpret_cast<char*>(&at), sizeof at)) last = at;
    return last;
  }
  // How many keys there are; none may be missing between them.
  int count() {
    int n = 0;
    for (auto at = store_->iterate("key", "kez"); at->valid(); at->next(), ++n) {
      if (at->key() != key(n)) ADD_FAILURE() << "a hole before " << at->key() << ", expected " << n;
      if (at->key() != key(n)) break;
    }
    return n;
  }
  // Logs with something in them, oldest first.
  static std::vector<std::string> logs(const std::string& folder) {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder + "/cells")) {
      if (entry.path().extension() == ".log" && entry.file_size() > 0) found.push_back(entry.path());
    }
    std::sort(found.begin(), found.end());
    return found;
  }
};

TEST_F(KilledRocksTest, DISABLED_Child) {
  const char* folder = ::getenv(kFolder);  // NOLINT(concurrency-mt-unsafe): nobody changes it
  ASSERT_NE(folder, nullptr) << "it is started by the other tests, to be killed";
  store_.reset();
  std::filesystem::remove_all(path_);
  store_ = std::move(RocksStore::open(loop_, metrics_, options(folder)).value());
  std::ofstream acked(std::string(folder) + "/acked", std::ios::binary);
  for (int i = count();;) {
    LogPosition position;
    for (int end = i + 1 + i % 37; i < end; ++i) position = put(key(i), std::string(4000, 'v'));
    ASSERT_TRUE(wait_durable(position).has_value());
    acked.write(reinterpret_cast<const char*>(&i), sizeof i).flush();
  }
}

TEST_F(KilledRocksTest, LosesNothingAndIsNeverRefused) {
  for (int round = 0; round < 8; ++round) {
    store_.reset();
    load_and_kill(std::chrono::milliseconds(10 + round * 37 % 200));
    int durable = acked();
    store_ = std::move(RocksStore::open(loop_, metrics_, options(path_)).value());
    ASSERT_GE(count(), durable) << round;
  }
}

// Killed while one log is not in tables yet and the next has begun: where the earlier one is cut or missing,
// RocksDB would go on with the later one.
TEST_F(KilledRocksTest, AnEarlierLogThatWasCutOrIsMissingIsRefused) {
  int refused = 0;
  for (int round = 0; round < 60 && refused < 3; ++round) {
    store_.reset();
    load_and_kill(std::chrono::milliseconds(20 + round * 7 % 100));
    auto found = logs(path_);
    if (found.size() < 2) continue;
    const std::string& log = found[found.size() - 2];
    if (round % 2 == 0) {
      std::filesystem::resize_file(log, std::filesystem::file_size(log) / 2);
    } else {
      std::filesystem::remove(log);
    }
    auto opened = RocksStore::open(loop_, metrics_, options(path_));
    if (opened) {  // it was in tables, or ended so late that nobody had recorded it
      store_ = std::move(*opened);
      (void)count();
      continue;
    }
    EXPECT_EQ(opened.error().code, Errc::kCorrupt);
    EXPECT_NE(opened.error().message.find(".end"), std::string::npos) << opened.error().message;
    ++refused;
    std::filesystem::remove_all(path_ + "/cells");
    std::filesystem::remove(path_ + "/cells.end");
  }
  EXPECT_EQ(refused, 3);
}

}  // namespace
}  // namespace slice::storage
