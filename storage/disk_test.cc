// The same tests over every Disk, and what only the in-memory one can do: crash and fail.
#include "storage/disk.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <set>
#include <thread>
#include <type_traits>

#include "common/manual_loop.h"
#include "common/testing/temporary_folder.h"
#include "storage/memory_disk.h"
#include "storage/posix_disk.h"
#include "storage/testing/real_time.h"

namespace slice::storage {
namespace {

template <class T>
T run(ManualLoop& loop, Task<T> task) {
  return end_in_real_time(loop, std::move(task));
}

Buffer pattern(std::size_t n, std::uint8_t seed) {
  Buffer bytes(n);
  for (std::size_t i = 0; i < n; ++i) bytes.data()[i] = static_cast<std::uint8_t>(seed + i * 7 + i / 251);
  return bytes;
}

std::string text(ByteView bytes) {
  return std::string(as_text(bytes));
}

struct Posix {
  Posix() : Posix(std::filesystem::temp_directory_path()) {}
  explicit Posix(const std::filesystem::path& above) : folder(above) {
    disk = std::move(PosixDisk::open(loop, path, {.inline_unsynced_bytes = 1 << 20}).value());
  }
  ManualLoop loop;
  const TemporaryFolder folder;
  const std::string& path = folder.path();
  std::unique_ptr<Disk> disk;
};

// On tmpfs, where there is one, which is read without asking whether it would wait.
struct PosixInMemory : Posix {
  PosixInMemory()
      : Posix(std::filesystem::is_directory("/dev/shm") ? "/dev/shm"
                                                        : std::filesystem::temp_directory_path()) {}
};

struct InMemory {
  ManualLoop loop;
  std::unique_ptr<Disk> disk = std::make_unique<MemoryDisk>(loop);
};

struct SlowMemory {
  SlowMemory() {
    auto memory = std::make_unique<MemoryDisk>(loop);
    memory->set_delay(std::chrono::microseconds(1), std::chrono::milliseconds(3));
    disk = std::move(memory);
  }
  ManualLoop loop;
  std::unique_ptr<Disk> disk;
};

template <class Made>
class DiskTest : public testing::Test {
 protected:
  std::unique_ptr<File> open(const std::string& path, Disk::Mode mode = Disk::Mode::kCreate) {
    auto opened = run(made.loop, made.disk->open(path, mode));
    EXPECT_TRUE(opened) << opened.error().message;
    return opened ? std::move(*opened) : nullptr;
  }
  Status write(File& file, std::uint64_t offset, ByteView bytes) {
    return run(made.loop, file.write(offset, bytes));
  }
  std::string read(File& file, std::uint64_t offset, std::size_t n) {
    Buffer into(n);
    auto got = run(made.loop, file.read(offset, into.span()));
    EXPECT_TRUE(got) << got.error().message;
    return got ? text(into.view().first(*got)) : "";
  }
  Made made;
};

using Disks = testing::Types<Posix, PosixInMemory, InMemory, SlowMemory>;
TYPED_TEST_SUITE(DiskTest, Disks);

TYPED_TEST(DiskTest, ReadsWhatWasWritten) {
  auto file = this->open("a/b/file");
  EXPECT_EQ(this->read(*file, 0, 10), "");
  ASSERT_TRUE(this->write(*file, 3, as_bytes("hello")));
  EXPECT_EQ(this->read(*file, 0, 100), std::string("\0\0\0hello", 8));
  EXPECT_EQ(this->read(*file, 7, 1), "o");
  EXPECT_EQ(this->read(*file, 8, 1), "");
  EXPECT_EQ(file->size(), 8u);
  file.reset();
  file = this->open("a/b/file", Disk::Mode::kMustExist);
  EXPECT_EQ(this->read(*file, 4, 3), "ell");
}

TYPED_TEST(DiskTest, WritesMoreThanFitsInline) {
  auto file = this->open("big");
  Buffer bytes = pattern(3 << 20, 9);
  for (std::uint64_t offset : {0ull, 3ull << 20, 9ull << 20}) {
    ASSERT_TRUE(this->write(*file, offset, bytes.view()));
  }
  EXPECT_TRUE(run(this->made.loop, file->sync()));
  EXPECT_EQ(this->read(*file, 9 << 20, 3 << 20), text(bytes.view()));
  EXPECT_EQ(this->read(*file, 6 << 20, 4096), std::string(4096, '\0'));
}

TYPED_TEST(DiskTest, ReadsPiecesAtOnce) {
  auto file = this->open("f");
  Buffer bytes = pattern(10000, 5);
  ASSERT_TRUE(this->write(*file, 0, bytes.view()));
  Buffer one(100), behind(6000), none(10);
  std::array<ReadPiece, 3> pieces{{{50, one.span()}, {9000, behind.span()}, {20000, none.span()}}};
  ASSERT_TRUE(run(this->made.loop, file->read_pieces(pieces)));
  EXPECT_EQ(pieces[0].got, 100u);
  EXPECT_EQ(pieces[1].got, 1000u);
  EXPECT_EQ(pieces[2].got, 0u);
  EXPECT_EQ(text(one.view()), text(bytes.view().subspan(50, 100)));
  EXPECT_EQ(text(behind.view().first(1000)), text(bytes.view().subspan(9000)));
}

TYPED_TEST(DiskTest, WritesPiecesInOrderAndNoneBehindOneThatFails) {
  auto file = this->open("f");
  std::array<WritePiece, 2> good{{{0, as_bytes("first")}, {3, as_bytes("second")}}};
  ASSERT_TRUE(run(this->made.loop, file->write_pieces(good)));
  EXPECT_EQ(this->read(*file, 0, 100), "firsecond");
  std::array<WritePiece, 2> bad{{{~std::uint64_t{0} - 1, as_bytes("ab")}, {0, as_bytes("never")}}};
  EXPECT_FALSE(run(this->made.loop, file->write_pieces(bad)));
  EXPECT_EQ(this->read(*file, 0, 100), "firsecond");
}

TYPED_TEST(DiskTest, ManyWritesAtOnceAllArrive) {
  auto file = this->open("f");
  std::vector<Buffer> parts;
  std::vector<Task<Status>> writes;
  for (std::uint8_t i = 0; i < 40; ++i) {
    parts.push_back(pattern(300'000, i));
    writes.push_back(file->write(i * 300'000, parts.back().view()));
  }
  for (auto& status : run(this->made.loop, all(std::move(writes)))) EXPECT_TRUE(status);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(this->read(*file, i * 300'000, 300'000), text(parts[i].view())) << i;
  }
  EXPECT_EQ(file->size(), 40u * 300'000);
}

TYPED_TEST(DiskTest, MissingFilesAreNotFound) {
  auto opened = run(this->made.loop, this->made.disk->open("none", Disk::Mode::kMustExist));
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::kNotFound);
  auto removed = run(this->made.loop, this->made.disk->remove("none"));
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().code, Errc::kNotFound);
  EXPECT_TRUE(run(this->made.loop, this->made.disk->list("no/such"))->empty());
}

TYPED_TEST(DiskTest, TruncateNeverLetsOldBytesReappear) {
  auto file = this->open("f");
  Buffer bytes = pattern(10000, 1);
  ASSERT_TRUE(this->write(*file, 0, bytes.view()));
  ASSERT_TRUE(run(this->made.loop, file->truncate(5001)));
  ASSERT_TRUE(this->write(*file, 9999, as_bytes("x")));
  EXPECT_EQ(this->read(*file, 0, 10000),
            text(bytes.view().first(5001)) + std::string(9999 - 5001, '\0') + "x");
}

TYPED_TEST(DiskTest, PunchReadsZerosAndKeepsTheSize) {
  auto file = this->open("f");
  Buffer bytes = pattern(20000, 1);
  ASSERT_TRUE(this->write(*file, 0, bytes.view()));
  ASSERT_TRUE(run(this->made.loop, file->punch(5000, 20000)));
  EXPECT_EQ(file->size(), 20000u);
  EXPECT_EQ(this->read(*file, 0, 20000), text(bytes.view().first(5000)) + std::string(15000, '\0'));
}

TYPED_TEST(DiskTest, HolesTakeNoSpace) {
  auto file = this->open("f");
  ASSERT_TRUE(this->write(*file, 1 << 20, pattern(8192, 3).view()));
  ASSERT_TRUE(this->write(*file, 8 << 20, pattern(4096, 3).view()));
  auto ranges = file->data_ranges(0, 10);
  ASSERT_TRUE(ranges);
  EXPECT_EQ(*ranges, (std::vector<Range>{{1 << 20, 8192}, {8 << 20, 4096}}));
  EXPECT_EQ(file->data_ranges(0, 1)->size(), 1u);
  EXPECT_EQ(file->data_ranges((1 << 20) + 4096, 1)->front(), (Range{(1 << 20) + 4096, 4096}));
  ASSERT_TRUE(run(this->made.loop, file->sync()));
  EXPECT_LE(*file->allocated(), 64u << 10);
  EXPECT_GE(*file->allocated(), 12288u);
}

TYPED_TEST(DiskTest, RenameReplacesAndListNames) {
  auto one = this->open("d/one"), two = this->open("d/two");
  ASSERT_TRUE(this->write(*one, 0, as_bytes("1")));
  ASSERT_TRUE(this->write(*two, 0, as_bytes("2")));
  ASSERT_TRUE(run(this->made.loop, this->made.disk->rename("d/one", "d/two")));
  auto names = *run(this->made.loop, this->made.disk->list("d"));
  EXPECT_EQ(names, std::vector<std::string>{"two"});
  EXPECT_EQ(this->read(*this->open("d/two", Disk::Mode::kMustExist), 0, 9), "1");
  EXPECT_EQ(this->read(*two, 0, 9), "2") << "an open file outlives its name";
  EXPECT_TRUE(run(this->made.loop, this->made.disk->sync_folder("d")));
  EXPECT_EQ(*run(this->made.loop, this->made.disk->list("")), std::vector<std::string>{"d"});
}

TYPED_TEST(DiskTest, SimultaneousSyncsAllEnd) {
  auto file = this->open("f");
  std::vector<Task<Status>> syncs;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(this->write(*file, i * 10, as_bytes("0123456789")));
    syncs.push_back(file->sync());
  }
  for (auto& status : run(this->made.loop, all(std::move(syncs)))) EXPECT_TRUE(status);
  EXPECT_TRUE(run(this->made.loop, file->sync()));
}

TYPED_TEST(DiskTest, RefusesOffsetsOverTheFileSystemsLimit) {
  auto file = this->open("f");
  for (std::uint64_t offset : {std::uint64_t{1} << 62, (std::uint64_t{1} << 63) - 1, std::uint64_t{1} << 63,
                               std::numeric_limits<std::uint64_t>::max() - 1}) {
    // tmpfs has no limit of its own.
    if (std::is_same_v<TypeParam, PosixInMemory> && offset == std::uint64_t{1} << 62) continue;
    auto written = this->write(*file, offset, as_bytes("ab"));
    ASSERT_FALSE(written) << offset;
    EXPECT_EQ(written.error().code, Errc::kTooLarge);
  }
}

TYPED_TEST(DiskTest, KnowsItsSpace) {
  auto space = this->made.disk->space();
  ASSERT_TRUE(space);
  EXPECT_GT(space->total_bytes, 0u);
  EXPECT_LE(space->free_bytes, space->total_bytes);
}

// What the page cache does not have, by io_uring and by threads.
class ColdReadTest : public testing::TestWithParam<bool> {};

TEST_P(ColdReadTest, BytesThatAreNotInMemory) {
  Posix made;
  made.disk.reset();
  made.disk = std::move(PosixDisk::open(made.loop, made.path, {.io_uring = GetParam()}).value());
  auto file = std::move(run(made.loop, made.disk->open("f", Disk::Mode::kCreate)).value());
  Buffer bytes = pattern((8 << 20) + 777, 3);
  ASSERT_TRUE(run(made.loop, file->write(0, bytes.view())));
  ASSERT_TRUE(run(made.loop, file->sync()));
  for (std::size_t size : {std::size_t{1} << 20, std::size_t{70'001}}) {
    int fd = ::open((made.path + "/f").c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    ::close(fd);
    std::vector<Buffer> parts;
    std::vector<Task<Result<std::size_t>>> reads;
    for (std::size_t at = 0; at < bytes.size() + size; at += size) {
      parts.emplace_back(size);
      reads.push_back(file->read(at, parts.back().span()));
    }
    std::string all_bytes;
    auto counts = run(made.loop, all(std::move(reads)));
    for (std::size_t i = 0; i < counts.size(); ++i) {
      ASSERT_TRUE(counts[i]) << counts[i].error().message;
      all_bytes += text(parts[i].view().first(*counts[i]));
    }
    EXPECT_EQ(all_bytes, text(bytes.view()));
  }
}
INSTANTIATE_TEST_SUITE_P(Engines, ColdReadTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "IoUring" : "Threads"; });

// Past the page cache, where the kernel says what is in it (Linux 6.5).
class DirectReadTest : public testing::Test {
 protected:
  static constexpr std::size_t kFile = 8 << 20, kRead = 64 << 10;

  void SetUp() override {
    file_ = std::move(run(made_.loop, made_.disk->open("f", Disk::Mode::kCreate)).value());
    ASSERT_TRUE(run(made_.loop, file_->write(0, bytes_.view())));
    ASSERT_TRUE(run(made_.loop, file_->sync()));
    forget();
    if (!read(kFile - kRead))
      GTEST_SKIP()
          << "no direct reads here: they need cachestat(2), io_uring and a file system that has O_DIRECT";
  }
  void forget() {
    int fd = ::open((made_.path + "/f").c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    ::close(fd);
  }
  // Whether it came past the page cache; the bytes are looked at.
  bool read(std::uint64_t offset, std::size_t size = kRead, std::size_t unaligned = 0) {
    Buffer into;
    std::uint8_t* to = into.extend_aligned(size + unaligned, kDirectAlignment) + unaligned;
    ReadPiece piece{offset, {to, size}};
    EXPECT_TRUE(run(made_.loop, file_->read_pieces({&piece, 1})));
    const ByteView wanted = bytes_.view().subspan(std::min<std::size_t>(offset, bytes_.size()));
    EXPECT_EQ(piece.got, std::min(size, wanted.size()));
    EXPECT_EQ(text({to, piece.got}), text(wanted.first(piece.got)));
    return piece.direct;
  }

  Posix made_;
  Buffer bytes_ = pattern(kFile + 777, 3);
  std::unique_ptr<File> file_;
};

TEST_F(DirectReadTest, WhatIsAskedForTwiceIsKeptInMemory) {
  EXPECT_TRUE(read(0));
  EXPECT_FALSE(read(0)) << "the second time through the page cache";
  EXPECT_FALSE(read(0)) << "and out of it";
  EXPECT_TRUE(read(2 << 20));
  EXPECT_TRUE(read(4 << 20, 1 << 20));
}

TEST_F(DirectReadTest, OnlyWhatIsAlignedAndLong) {
  EXPECT_FALSE(read(512));
  forget();
  EXPECT_FALSE(read(kRead, kRead - 512));
  forget();
  EXPECT_FALSE(read(2 * kRead, kRead, 512));
  forget();
  EXPECT_FALSE(read(3 * kRead, kDirectLeast - kDirectAlignment));
  forget();
  EXPECT_TRUE(read(4 * kRead, kDirectLeast));
}

TEST_F(DirectReadTest, TheEndOfAFileAndBeyond) {
  EXPECT_TRUE(read(kFile - kRead + kDirectAlignment));
  forget();
  EXPECT_TRUE(read(kFile));
  forget();
  EXPECT_TRUE(read(kFile + kRead)) << "nothing is there";
}

TEST_F(DirectReadTest, WhatWasWrittenIsRead) {
  for (std::size_t i = 0; i < 2 * kRead; ++i) bytes_.data()[2 * kRead + i] ^= 0x5a;
  ASSERT_TRUE(run(made_.loop, file_->write(2 * kRead, bytes_.view().subspan(2 * kRead, 2 * kRead))));
  EXPECT_FALSE(read(2 * kRead)) << "it is in memory alone";
  EXPECT_FALSE(read(kRead, 2 * kRead)) << "half of it";
  ASSERT_TRUE(run(made_.loop, file_->sync()));
  forget();
  EXPECT_TRUE(read(3 * kRead));
}

TEST_F(DirectReadTest, AFileThatIsInMemoryIsNotAskedAboutForEver) {
  for (int i = 0; i < 2; ++i) {
    for (std::uint64_t at = 0; at < kFile; at += kRead) (void)read(at);
  }
  for (std::uint64_t at = 0; at < kFile; at += kRead) EXPECT_FALSE(read(at));
  forget();
  EXPECT_FALSE(read(0)) << "nobody asks";
  EXPECT_TRUE(read((5 << 20) + kDirectAlignment)) << "that one was not there";
}

TEST_F(DirectReadTest, ByAnotherNameToo) {
  ASSERT_TRUE(run(made_.loop, made_.disk->rename("f", "g")));
  auto other = std::move(run(made_.loop, made_.disk->open("f", Disk::Mode::kCreate)).value());
  EXPECT_TRUE(read(5 * kRead));
}

TEST(PosixDiskTest, DirectReadsCanBeOff) {
  Posix made;
  made.disk = std::move(PosixDisk::open(made.loop, made.path, {.direct_reads = false}).value());
  auto file = std::move(run(made.loop, made.disk->open("f", Disk::Mode::kCreate)).value());
  const Buffer bytes = pattern(1 << 20, 3);
  ASSERT_TRUE(run(made.loop, file->write(0, bytes.view())));
  ASSERT_TRUE(run(made.loop, file->sync()));
  int fd = ::open((made.path + "/f").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
  ::close(fd);
  Buffer into;
  ReadPiece piece{0, {into.extend_aligned(bytes.size(), kDirectAlignment), bytes.size()}};
  ASSERT_TRUE(run(made.loop, file->read_pieces({&piece, 1})));
  EXPECT_FALSE(piece.direct);
}

TEST(PosixDiskTest, TellsOfAMissingFolder) {
  ManualLoop loop;
  auto opened = PosixDisk::open(loop, "/nonexistent/slice");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::kNotFound);
}

class MemoryDiskTest : public testing::Test {
 protected:
  std::unique_ptr<File> open(const std::string& path, Disk::Mode mode = Disk::Mode::kCreate) {
    return std::move(run(loop, disk.open(path, mode)).value());
  }
  bool exists(const std::string& path) {
    return run(loop, disk.open(path, Disk::Mode::kMustExist)).has_value();
  }
  std::string content(const std::string& path) {
    auto file = open(path, Disk::Mode::kMustExist);
    Buffer into(file->size());
    EXPECT_TRUE(run(loop, file->read(0, into.span())));
    return text(into.view());
  }
  ManualLoop loop;
  MemoryDisk disk{loop};
};

TEST_F(MemoryDiskTest, PowerLossDropsWhatWasNotSynced) {
  auto file = open("f");
  ASSERT_TRUE(run(loop, file->write(0, as_bytes("synced"))));
  ASSERT_TRUE(run(loop, file->sync()));
  ASSERT_TRUE(run(loop, file->write(0, as_bytes("later!!"))));
  auto other = open("g");
  disk.crash(MemoryDisk::Crash::kProcess);
  EXPECT_EQ(content("f"), "later!!") << "a killed process loses nothing of the page cache";
  EXPECT_EQ(run(loop, file->sync()).error().code, Errc::kIo) << "it was opened before the crash";
  disk.crash(MemoryDisk::Crash::kDropUnsynced);
  EXPECT_EQ(content("f"), "synced");
  EXPECT_FALSE(exists("g"));
}

TEST_F(MemoryDiskTest, NamesAreDurableAfterTheFoldersSync) {
  auto file = open("d/tmp");
  ASSERT_TRUE(run(loop, file->write(0, as_bytes("x"))));
  ASSERT_TRUE(run(loop, file->sync()));
  ASSERT_TRUE(run(loop, disk.rename("d/tmp", "d/final")));
  disk.crash(MemoryDisk::Crash::kDropUnsynced);
  EXPECT_TRUE(exists("d/tmp"));
  ASSERT_TRUE(run(loop, disk.rename("d/tmp", "d/final")));
  ASSERT_TRUE(run(loop, disk.sync_folder("d")));
  disk.crash(MemoryDisk::Crash::kDropUnsynced);
  EXPECT_FALSE(exists("d/tmp"));
  EXPECT_EQ(content("d/final"), "x");
  ASSERT_TRUE(run(loop, disk.remove("d/final")));
  disk.crash(MemoryDisk::Crash::kDropUnsynced);
  EXPECT_TRUE(exists("d/final")) << "the removal was not synced";
}

TEST_F(MemoryDiskTest, SeededCrashesTearWritesInSectors) {
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    MemoryDisk fresh(loop);
    auto file = std::move(run(loop, fresh.open("f", Disk::Mode::kCreate)).value());
    ASSERT_TRUE(run(loop, file->write(0, Buffer(pattern(2048, 0)).view())));
    ASSERT_TRUE(run(loop, file->sync()));
    Buffer ones(2048);
    std::fill_n(ones.data(), 2048, std::uint8_t{1});
    ASSERT_TRUE(run(loop, file->write(0, ones.view())));
    fresh.crash(MemoryDisk::Crash::kSeeded, seed);
    auto again = std::move(run(loop, fresh.open("f", Disk::Mode::kMustExist)).value());
    Buffer now(2048);
    ASSERT_TRUE(run(loop, again->read(0, now.span())));
    std::string shape;
    for (std::size_t sector = 0; sector < 4; ++sector) {
      auto part = now.view().subspan(sector * 512, 512);
      bool is_new = std::equal(part.begin(), part.end(), ones.data());
      bool is_old = std::equal(part.begin(), part.end(), pattern(2048, 0).data() + sector * 512);
      ASSERT_TRUE(is_new || is_old);
      shape += is_new ? 'n' : 'o';
    }
    seen.insert(shape);
  }
  EXPECT_TRUE(seen.contains("nnnn"));
  EXPECT_TRUE(seen.contains("oooo"));
  EXPECT_GT(seen.size(), 3u) << "some are torn";
}

TEST_F(MemoryDiskTest, AFailedSyncLosesItsDataForGood) {
  auto file = open("f");
  ASSERT_TRUE(run(loop, file->sync()));
  ASSERT_TRUE(run(loop, file->write(0, as_bytes("lost"))));
  disk.set_fault([](const MemoryDisk::Access& access) -> std::optional<Error> {
    if (access.operation != MemoryDisk::Operation::kSync) return std::nullopt;
    return Error{Errc::kIo, "injected"};
  });
  EXPECT_FALSE(run(loop, file->sync()));
  disk.set_fault(nullptr);
  EXPECT_FALSE(run(loop, file->sync())) << "remembered";
  auto again = open("f");
  ASSERT_TRUE(run(loop, again->write(10, as_bytes("kept"))));
  EXPECT_TRUE(run(loop, again->sync()));
  EXPECT_EQ(content("f").substr(0, 4), "lost") << "still in the page cache";
  disk.crash(MemoryDisk::Crash::kDropUnsynced);
  EXPECT_EQ(content("f"), std::string(10, '\0') + "kept");
}

TEST_F(MemoryDiskTest, RefusesWhenFullAndRecovers) {
  disk.set_capacity(3 * 4096);
  auto file = open("f");
  ASSERT_TRUE(run(loop, file->write(0, pattern(8192, 1).view())));
  auto refused = run(loop, file->write(8192, pattern(8192, 1).view()));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kNoSpace);
  EXPECT_TRUE(run(loop, file->write(0, pattern(8192, 2).view()))) << "what has its place may be overwritten";
  EXPECT_EQ(disk.space()->free_bytes, 4096u);
  ASSERT_TRUE(run(loop, file->truncate(0)));
  EXPECT_TRUE(run(loop, file->write(8192, pattern(8192, 1).view())));
}

TEST_F(MemoryDiskTest, CorruptionIsThereForEveryReader) {
  auto file = open("f");
  ASSERT_TRUE(run(loop, file->write(0, as_bytes("abc"))));
  ASSERT_TRUE(run(loop, file->sync()));
  EXPECT_TRUE(disk.corrupt("f", 1, 1));
  EXPECT_FALSE(disk.corrupt("f", 3, 1));
  EXPECT_EQ(content("f"), "acc");
  disk.crash(MemoryDisk::Crash::kDropUnsynced);
  EXPECT_EQ(content("f"), "acc");
}

}  // namespace
}  // namespace slice::storage
