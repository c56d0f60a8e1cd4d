// The log and the store on a real file system and RocksDB: what the tests on simulated disks cannot show.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/testing/temporary_folder.h"
#include "rpc/epoll_loop.h"
#include "smallfile/store.h"
#include "storage/log.h"
#include "storage/posix_disk.h"
#include "storage/rocks_store.h"

namespace slice::smallfile {
namespace {

using ::testing::HasSubstr;

class RealDiskTest : public ::testing::Test {
 protected:
  RealDiskTest() { disk = storage::PosixDisk::open(loop, folder.string()).value(); }
  ~RealDiskTest() override {
    close_store();
    disk.reset();
  }
  template <class T>
  T wait(Task<T> task) {
    std::optional<T> result;
    spawn(std::move(task), result);
    EXPECT_TRUE(loop.run_until([&] { return result.has_value(); }, std::chrono::minutes(1)));
    return std::move(*result);
  }
  void open_store() {
    records = storage::RocksStore::open(loop, metrics, {.folder = (folder / "maps").string()}).value();
    zones = std::make_unique<DiskZoneStore>(loop, *disk);
    auto opened = wait(
        Store::open(loop, *disk, *records, *zones, metrics,
                    {.sites = 4,
                     .site_of = [](FileId id) { return SiteId{static_cast<std::uint32_t>(id.value % 4)}; },
                     .reserve_bytes = 1 << 20}));
    ASSERT_TRUE(opened) << opened.error().message;
    store = std::move(*opened);
  }
  void close_store() {
    store.reset();
    zones.reset();
    records.reset();
  }
  Result<std::string> content(std::uint64_t file, std::size_t length) {
    std::string bytes(length, '?');
    auto read = wait(store->read({file}, 0, {reinterpret_cast<std::uint8_t*>(bytes.data()), length}));
    if (!read) return fail(read.error());
    return bytes;
  }
  static void flip(const std::filesystem::path& path, std::uint64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    char byte = static_cast<char>(file.get() ^ 0x20);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
    ASSERT_TRUE(file.good());
  }

  const TemporaryFolder temporary;
  const std::filesystem::path folder = temporary.path();
  Metrics metrics;
  rpc::EpollLoop loop;
  std::unique_ptr<storage::PosixDisk> disk;
  std::unique_ptr<storage::RocksStore> records;
  std::unique_ptr<DiskZoneStore> zones;
  std::unique_ptr<Store> store;
};

TEST_F(RealDiskTest, TheLogCutsATornTailAndRefusesDamage) {
  std::vector<std::string> replayed;
  auto open = [&] {
    replayed.clear();
    return wait(storage::Log::open(loop, *disk, metrics, {}, [&](storage::LogSequence, ByteView record) {
      replayed.emplace_back(as_text(record));
      return Status{};
    }));
  };
  {
    auto log = open();
    ASSERT_TRUE(log) << log.error().message;
    for (const char* record : {"one", "two", "three"}) {
      ASSERT_TRUE(wait((*log)->sync(*(*log)->append(as_bytes(record)))));
    }
    ASSERT_TRUE(wait((*log)->record_end()));
  }
  std::filesystem::path segment = folder / "log/0000000000000001.log";
  std::uint64_t size = std::filesystem::file_size(segment);
  std::filesystem::resize_file(segment, size - 1);
  ASSERT_FALSE(open());  // it was stopped cleanly: nothing of it can be torn
  for (std::uint64_t cut = size - 1; cut > size - 29; --cut) {
    std::filesystem::remove(folder / "log.end");
    std::filesystem::resize_file(segment, cut);
    ASSERT_TRUE(open());
    EXPECT_EQ(replayed, (std::vector<std::string>{"one", "two"}));
    EXPECT_EQ(std::filesystem::file_size(segment), size - 29);
    std::filesystem::resize_file(segment, cut);  // zeros behind the end, as after a crash
  }
  std::filesystem::remove(folder / "log.end");
  ASSERT_TRUE(open());
  flip(segment, 40);
  auto damaged = open();
  ASSERT_FALSE(damaged);
  EXPECT_THAT(damaged.error().message, HasSubstr("log/0000000000000001.log: offset 32"));
}

TEST_F(RealDiskTest, TheStoreKeepsItsFilesOverRestarts) {
  open_store();
  for (std::uint64_t file = 0; file < 200; ++file) {
    std::string data(file * 37 % 20000 + 1, static_cast<char>('a' + file % 26));
    ASSERT_TRUE(wait(store->write({file}, {.offset = 0, .data = as_bytes(data), .stable = file % 8 == 0})));
  }
  for (std::uint64_t file = 0; file < 200; ++file) ASSERT_TRUE(wait(store->commit({file})));
  close_store();  // everything is in the journal
  open_store();
  ASSERT_TRUE(wait(store->save()));
  for (std::uint64_t file = 0; file < 200; file += 3) ASSERT_TRUE(wait(store->remove({file})));
  close_store();  // some in the journal, some in zones
  open_store();
  for (std::uint64_t file = 0; file < 200; ++file) {
    if (file % 3 == 0) {
      EXPECT_EQ(store->look({file}).error().code, Errc::kStale);
      continue;
    }
    std::size_t length = file * 37 % 20000 + 1;
    EXPECT_EQ(*content(file, length), std::string(length, static_cast<char>('a' + file % 26)));
  }
  ASSERT_TRUE(wait(store->save()));
}

TEST_F(RealDiskTest, ADamagedBlockOnDiskIsFound) {
  open_store();
  std::string data(9000, 'x');
  ASSERT_TRUE(wait(store->write({5}, {.offset = 0, .data = as_bytes(data), .stable = true})));
  ASSERT_TRUE(wait(store->save()));
  std::uint64_t place = store->stat({5})->extents[1].place;
  close_store();
  flip(folder / DiskZoneStore::path({1}), place + 10);
  open_store();
  EXPECT_EQ(*content(5, 8192), std::string(8192, 'x'));
  auto bad = content(5, 9000);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, Errc::kCorrupt);
}

}  // namespace
}  // namespace slice::smallfile
