#include "storage/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "common/manual_loop.h"
#include "storage/log_format.h"
#include "storage/memory_disk.h"

namespace slice::storage {
namespace {

using ::testing::HasSubstr;
using Crash = MemoryDisk::Crash;
using Operation = MemoryDisk::Operation;

class LogTest : public ::testing::Test {
 protected:
  template <class T>
  T wait(Task<T> task) {
    std::optional<T> result;
    spawn(std::move(task), result);
    EXPECT_TRUE(loop.run_until([&] { return result.has_value(); }));
    return std::move(*result);
  }

  Status open() {
    log.reset();
    replayed.clear();
    auto opened = wait(Log::open(loop, disk, metrics, options, [this](LogSequence at, ByteView record) {
      EXPECT_TRUE(replayed.empty() || at.value == replayed.back().first + 1);
      replayed.emplace_back(at.value, std::string(as_text(record)));
      return Status{};
    }));
    if (!opened) return fail(opened.error());
    log = std::move(*opened);
    return {};
  }
  void must_open() {
    Status status = open();
    ASSERT_TRUE(status) << status.error().message;
  }
  Status add(const std::string& record) {
    auto sequence = log->append(as_bytes(record));
    if (!sequence) return fail(sequence.error());
    return wait(log->sync(*sequence));
  }
  std::vector<std::string> records() const {
    std::vector<std::string> all;
    for (const auto& [at, record] : replayed) all.push_back(record);
    return all;
  }
  std::uint64_t metric(const std::string& name) {
    return metrics.counter(name + "{log=\"" + options.folder + "\"}").value();
  }
  void cut_file(const std::string& path, std::uint64_t size) {
    auto file = wait(disk.open(path, Disk::Mode::kMustExist));
    ASSERT_TRUE(file);
    ASSERT_TRUE(wait((*file)->truncate(size)));
    ASSERT_TRUE(wait((*file)->sync()));
  }
  std::vector<std::string> segments() {
    auto paths = disk.paths();
    std::erase_if(paths, [](const std::string& path) { return !path.starts_with("log/"); });
    return paths;
  }
  // As if the process had been killed within a second of its first record.
  void forget_mark() {
    log.reset();
    (void)wait(disk.remove("log.end"));
  }
  // Opening is refused, and changes nothing.
  void must_refuse(const std::string& why) {
    auto before = disk.paths();
    Status status = open();
    ASSERT_FALSE(status) << why;
    EXPECT_EQ(status.error().code, Errc::kCorrupt);
    EXPECT_THAT(status.error().message, HasSubstr(why));
    EXPECT_EQ(disk.paths(), before);
  }
  std::uint64_t file_size(const std::string& path) {
    return (*wait(disk.open(path, Disk::Mode::kMustExist)))->size();
  }

  ManualLoop loop;
  MemoryDisk disk{loop};
  Metrics metrics;
  Log::Options options;
  std::unique_ptr<Log> log;
  std::vector<std::pair<std::uint64_t, std::string>> replayed;
  const std::string first_segment = "log/0000000000000001.log";
};

TEST_F(LogTest, ReplaysWhatWasAppendedInOrderAndGoesOnCounting) {
  must_open();
  EXPECT_EQ(log->last().value, 0u);
  ASSERT_TRUE(add("one"));
  ASSERT_TRUE(add(""));
  ASSERT_TRUE(add(std::string(100000, 'x')));
  must_open();
  EXPECT_EQ(records(), (std::vector<std::string>{"one", "", std::string(100000, 'x')}));
  EXPECT_EQ(log->durable().value, 3u);
  ASSERT_TRUE(add("four"));
  must_open();
  ASSERT_EQ(replayed.size(), 4u);
  EXPECT_EQ(replayed.back(), (std::pair<std::uint64_t, std::string>{4, "four"}));
  EXPECT_EQ(metric("log_torn_tails_total"), 0u);
}

TEST_F(LogTest, SharesOneWriteAndOneSyncBetweenCallers) {
  must_open();
  std::uint64_t syncs = disk.syncs();
  std::vector<std::optional<Status>> results(50);
  for (std::size_t i = 0; i < results.size(); ++i) {
    spawn(log->sync(*log->append(as_bytes("record"))), results[i]);
  }
  EXPECT_EQ(log->durable().value, 0u);
  ASSERT_TRUE(loop.run_until([&] { return results.back().has_value(); }));
  for (const auto& result : results) EXPECT_TRUE(result && *result);
  EXPECT_EQ(disk.syncs() - syncs, 1u);
  EXPECT_EQ(log->durable().value, 50u);
}

TEST_F(LogTest, CallersThatComeWhileTheDiskIsBusyShareTheNextSync) {
  disk.set_delay(std::chrono::milliseconds(1), std::chrono::milliseconds(1));
  must_open();
  std::uint64_t syncs = disk.syncs();
  std::vector<std::optional<Status>> results(11);
  spawn(log->sync(*log->append(as_bytes("first"))), results[0]);
  loop.run_ready();
  for (std::size_t i = 1; i < results.size(); ++i) {
    spawn(log->sync(*log->append(as_bytes("later"))), results[i]);
  }
  ASSERT_TRUE(loop.run_until([&] { return results[0].has_value(); }));
  EXPECT_EQ(log->durable().value, 1u);
  EXPECT_FALSE(results[1].has_value());
  ASSERT_TRUE(loop.run_until([&] { return results[10].has_value(); }));
  EXPECT_EQ(disk.syncs() - syncs, 2u);
}

TEST_F(LogTest, SyncOfAnEarlierRecordIsAlreadyDone) {
  must_open();
  ASSERT_TRUE(add("a"));
  std::uint64_t syncs = disk.syncs();
  EXPECT_TRUE(wait(log->sync({1})));
  EXPECT_EQ(disk.syncs(), syncs);
}

TEST_F(LogTest, ACrashLosesOnlyWhatWasNotSynced) {
  for (Crash how : {Crash::kProcess, Crash::kDropUnsynced}) {
    must_open();
    std::size_t before = replayed.size();
    ASSERT_TRUE(add("kept"));
    (void)*log->append(as_bytes("lost"));
    disk.crash(how);
    must_open();
    EXPECT_EQ(replayed.size(), before + 1);
    EXPECT_EQ(replayed.back().second, "kept");
  }
}

TEST_F(LogTest, TruncationAtEveryByteKeepsEveryWholeRecord) {
  must_open();
  std::vector<std::uint64_t> ends{log_format::kSegmentHeaderSize};
  for (std::string record : {"alpha", "b", "", "delta-delta-delta", "e"}) {
    ASSERT_TRUE(add(record));
    ends.push_back(log->bytes());
  }
  std::uint64_t size = file_size(first_segment);
  ASSERT_EQ(size, ends.back());
  for (std::uint64_t cut = size; cut-- > 0;) {
    forget_mark();
    cut_file(first_segment, cut);
    std::uint64_t torn = metric("log_torn_tails_total");
    must_open();
    auto whole = static_cast<std::size_t>(
        std::count_if(ends.begin() + 1, ends.end(), [&](auto end) { return end <= cut; }));
    EXPECT_EQ(replayed.size(), whole) << "cut at " << cut;
    bool at_an_end = std::find(ends.begin(), ends.end(), cut) != ends.end();
    EXPECT_EQ(metric("log_torn_tails_total") - torn, at_an_end ? 0u : 1u) << "cut at " << cut;
    // What was cut is gone for good, and the log goes on from there.
    EXPECT_EQ(file_size(first_segment),
              *std::max_element(ends.begin(), ends.begin() + 1 + static_cast<long>(whole)));
  }
  must_open();
  ASSERT_TRUE(add("again"));
  must_open();
  EXPECT_EQ(records(), std::vector<std::string>{"again"});
}

// A cut at the border of a record looks like a log that ends there.
TEST_F(LogTest, ALogThatWasCutAfterACleanStopIsRefused) {
  must_open();
  std::vector<std::uint64_t> ends{log->bytes()};
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(add(std::string(50, 'r')));
    ends.push_back(log->bytes());
  }
  ASSERT_TRUE(wait(log->record_end()));
  Buffer whole(ends.back());
  ASSERT_TRUE(wait((*wait(disk.open(first_segment, Disk::Mode::kMustExist)))->read(0, whole.span())));
  must_open();
  for (std::uint64_t cut = ends.back(); cut-- > 0;) {
    log.reset();
    cut_file(first_segment, cut);
    auto at = static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), cut) - ends.begin());
    must_refuse(fmt::format("it ends at record {}, but records up to 4 were durable", at > 0 ? at - 1 : 0));
    EXPECT_EQ(file_size(first_segment), cut);
  }
  auto file = wait(disk.open(first_segment, Disk::Mode::kMustExist));
  ASSERT_TRUE(wait((*file)->write(0, whole.view())));
  must_open();
  EXPECT_EQ(replayed.size(), 4u);
}

TEST_F(LogTest, TheEndIsRecordedWithinASecond) {
  must_open();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(add("before"));
  loop.advance(std::chrono::milliseconds(1100));
  std::uint64_t recorded = log->bytes();
  std::uint64_t operations = disk.operations();
  loop.advance(std::chrono::seconds(60));
  EXPECT_EQ(disk.operations(), operations);  // nothing was added: nothing is to be recorded
  ASSERT_TRUE(add("after"));
  disk.crash(Crash::kDropUnsynced);
  log.reset();
  cut_file(first_segment, recorded);
  must_open();  // the last one is not known of
  EXPECT_EQ(replayed.size(), 3u);
  log.reset();
  cut_file(first_segment, recorded - 1);
  must_refuse("it ends at record 2, but records up to 3 were durable");
}

// A mark that the killed process had written and not synced is read all the same. Segments go by it, so it
// must not be lost after them.
TEST_F(LogTest, AMarkThatWasNotSyncedIsMadeDurableBeforeSegmentsGo) {
  options.segment_bytes = 500;
  must_open();
  for (int i = 0; i < 9; ++i) ASSERT_TRUE(add(std::string(200, 'x')));
  ASSERT_TRUE(wait(log->record_end()));
  disk.set_fault([this](const MemoryDisk::Access& access) -> std::optional<Error> {
    if (access.operation == Operation::kSync && access.path == "log.end") disk.crash(Crash::kProcess);
    return std::nullopt;
  });
  EXPECT_FALSE(wait(log->trim({6})));
  disk.set_fault(nullptr);
  must_open();
  ASSERT_TRUE(wait(log->trim({6})));
  disk.crash(Crash::kDropUnsynced);
  must_open();
  EXPECT_EQ(replayed.back().first, 9u);
}

TEST_F(LogTest, ALostSegmentAtEitherEndIsRefused) {
  options.segment_bytes = 500;
  must_open();
  for (int i = 0; i < 12; ++i) ASSERT_TRUE(add(std::string(200, 'r')));
  ASSERT_TRUE(wait(log->trim({4})));
  ASSERT_TRUE(wait(log->record_end()));
  must_open();
  log.reset();
  auto paths = segments();
  ASSERT_GE(paths.size(), 3u);
  ASSERT_TRUE(wait(disk.rename(paths.back(), "away")));
  must_refuse("but records up to 12 were durable");
  ASSERT_TRUE(wait(disk.rename("away", paths.back())));
  ASSERT_TRUE(wait(disk.rename(paths.front(), "away")));
  must_refuse("but those from");
  ASSERT_TRUE(wait(disk.rename("away", paths.front())));
  must_open();
  log.reset();
  for (const std::string& path : paths) ASSERT_TRUE(wait(disk.remove(path)));
  must_refuse("it ends at record 0");
}

TEST_F(LogTest, OneOfTwoMarksMayBeTornAndNotBoth) {
  must_open();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(add("r"));
    ASSERT_TRUE(wait(log->record_end()));
  }
  ASSERT_TRUE(disk.corrupt("log.end", 30, 1));
  must_open();
  ASSERT_TRUE(disk.corrupt("log.end", 512 + 30, 1));
  must_refuse("log.end: no mark in it is whole");
  log.reset();
  cut_file("log.end", 700);
  must_refuse("log.end: no mark in it is whole");
  ASSERT_TRUE(wait(disk.remove("log.end")));
  must_open();  // what its message recommends
  EXPECT_EQ(replayed.size(), 3u);
}

TEST_F(LogTest, AFlippedByteBeforeTheTailIsRefusedWithSegmentAndOffset) {
  must_open();
  ASSERT_TRUE(add("first record"));
  std::uint64_t second = log->bytes();
  ASSERT_TRUE(add("second record"));
  std::uint64_t third = log->bytes();
  ASSERT_TRUE(add("third record"));
  std::uint64_t size = log->bytes();
  for (std::uint64_t at = 0; at < size; ++at) {
    forget_mark();
    ASSERT_TRUE(disk.corrupt(first_segment, at, 0x40));
    Status status = open();
    if (at < third) {
      std::uint64_t bad = at < log_format::kSegmentHeaderSize ? 0
                          : at < second                       ? log_format::kSegmentHeaderSize
                                                              : second;
      ASSERT_FALSE(status) << "flipped " << at;
      EXPECT_EQ(status.error().code, Errc::kCorrupt);
      EXPECT_THAT(status.error().message, HasSubstr(fmt::format("{}: offset {}:", first_segment, bad)));
    } else {
      // The last batch: nothing follows that proves it was durable.
      ASSERT_TRUE(status) << "flipped " << at;
      EXPECT_EQ(replayed.size(), 2u);
      must_open();
      ASSERT_TRUE(add("third record"));  // it was cut: for the next round
      continue;
    }
    ASSERT_TRUE(disk.corrupt(first_segment, at, 0x40));
  }
  EXPECT_GT(metric("log_torn_tails_total"), 0u);
}

TEST_F(LogTest, ABatchThatReachedTheDiskOutOfOrderIsATornTail) {
  must_open();
  ASSERT_TRUE(add("durable"));
  std::vector<std::optional<Status>> results(3);
  std::uint64_t at = log->bytes();
  for (auto& result : results) spawn(log->sync(*log->append(as_bytes(std::string(600, 'r')))), result);
  ASSERT_TRUE(loop.run_until([&] { return results.back().has_value(); }));
  // The first of the batch is damaged, the two behind it are whole: nobody can have been told of them.
  forget_mark();
  ASSERT_TRUE(disk.corrupt(first_segment, at + 100, 1));
  must_open();
  EXPECT_EQ(records(), std::vector<std::string>{"durable"});
  EXPECT_EQ(metric("log_torn_tails_total"), 1u);
  EXPECT_EQ(metric("log_torn_bytes_total"), 3 * (600 + log_format::kRecordHeaderSize));
}

TEST_F(LogTest, RecordsInsideAPayloadAreNotTakenForRecords) {
  must_open();
  ASSERT_TRUE(add("durable"));
  // A payload that looks like a later record, made without knowing the segment's salt.
  Buffer forged;
  log_format::append_record(forged, 3, as_bytes("forged"));
  log_format::seal(forged.span(), 2, 0);
  std::uint64_t at = log->bytes();
  ASSERT_TRUE(add(std::string(as_text(forged.view())) + std::string(50, '.')));
  ASSERT_TRUE(disk.corrupt(first_segment, at, 1));
  must_open();
  EXPECT_EQ(records(), std::vector<std::string>{"durable"});
}

TEST_F(LogTest, SegmentsFollowEachOtherAndAreTrimmedWhole) {
  options.segment_bytes = 1000;
  must_open();
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(add(std::string(200, static_cast<char>('a' + i % 26))));
  std::size_t before = segments().size();
  EXPECT_GE(before, 6u);
  must_open();
  EXPECT_EQ(replayed.size(), 30u);

  ASSERT_TRUE(wait(log->trim({15})));
  EXPECT_LT(segments().size(), before);
  EXPECT_LT(log->bytes(), 30 * 224u);
  disk.crash(Crash::kDropUnsynced);
  must_open();
  EXPECT_LE(replayed.front().first, 15u);
  EXPECT_GT(replayed.front().first, 8u);
  EXPECT_EQ(replayed.back().first, 30u);

  ASSERT_TRUE(wait(log->trim({31})));
  EXPECT_EQ(segments().size(), 1u);  // the active segment stays
  must_open();
  ASSERT_TRUE(add("31st"));
  EXPECT_EQ(log->last().value, 31u);
}

TEST_F(LogTest, NewSegmentsAreWrittenOverTrimmedOnes) {
  options.segment_bytes = 1000;
  options.spares = 2;
  must_open();
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(add(std::string(200, 'x')));
  ASSERT_TRUE(wait(log->trim({31})));
  EXPECT_EQ(wait(disk.list("log.spare"))->size(), 2u);
  const std::uint64_t used = disk.used_bytes();
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(add(fmt::format("{:0>150}", i)));
  EXPECT_EQ(metric("log_segments_recycled_total"), 1u);
  EXPECT_LT(disk.used_bytes(), used + 1000);

  // What the segment had before lies behind its last record, and is no torn tail.
  must_open();
  EXPECT_EQ(records().back(), fmt::format("{:0>150}", 5));
  EXPECT_EQ(metric("log_torn_tails_total"), 0u);
  for (int i = 6; i < 30; ++i) ASSERT_TRUE(add(fmt::format("{:0>150}", i)));
  must_open();
  EXPECT_EQ(records().back(), fmt::format("{:0>150}", 29));
  EXPECT_EQ(metric("log_torn_tails_total"), 0u);
  EXPECT_EQ(metric("log_segments_recycled_total"), 2u);
}

TEST_F(LogTest, ATornBatchOverAnEarlierSegmentIsCut) {
  options.segment_bytes = 1000;
  must_open();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(add(std::string(200, 'x')));
  ASSERT_TRUE(wait(log->trim({11})));
  for (int i = 0; i < 7; ++i) ASSERT_TRUE(add("whole"));
  ASSERT_EQ(metric("log_segments_recycled_total"), 1u);
  const std::string newest = segments().back();
  forget_mark();
  // Of the last record its first bytes arrived.
  const std::uint64_t last = log_format::kSegmentHeaderSize + 6 * (log_format::kRecordHeaderSize + 5);
  ASSERT_GT(file_size(newest), last + 100);
  ASSERT_TRUE(disk.corrupt(newest, last + log_format::kRecordHeaderSize + 2, 1));
  must_open();
  EXPECT_EQ(replayed.back().first, 16u);
  EXPECT_EQ(metric("log_torn_tails_total"), 1u);
  EXPECT_EQ(metric("log_torn_bytes_total"), log_format::kRecordHeaderSize + 5);
  EXPECT_EQ(file_size(newest), last);
}

TEST_F(LogTest, AMissingSegmentAndAForeignFileAreRefused) {
  options.segment_bytes = 1000;
  must_open();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(add(std::string(300, 'x')));
  auto paths = segments();
  ASSERT_GE(paths.size(), 3u);
  log.reset();
  ASSERT_TRUE(wait(disk.remove(paths[1])));
  Status status = open();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::kCorrupt);
  EXPECT_THAT(status.error().message, HasSubstr(paths[2]));

  ASSERT_TRUE(wait(disk.open("log/notes.txt", Disk::Mode::kCreate)));
  status = open();
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("log/notes.txt"));
}

TEST_F(LogTest, DamageInAFinishedSegmentIsNeverATornTail) {
  options.segment_bytes = 500;
  must_open();
  ASSERT_TRUE(add(std::string(600, 'a')));
  ASSERT_TRUE(add("in the next segment"));
  ASSERT_TRUE(disk.corrupt(first_segment, 300, 1));
  Status status = open();
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr(first_segment + ": offset 32:"));
}

TEST_F(LogTest, ARecordOverTheLimitIsRefusedAndChangesNothing) {
  options.max_record = 100;
  must_open();
  auto sequence = log->append(Buffer(101).view());
  ASSERT_FALSE(sequence);
  EXPECT_EQ(sequence.error().code, Errc::kTooLarge);
  ASSERT_TRUE(add(std::string(100, 'x')));
  EXPECT_EQ(log->last().value, 1u);
}

TEST_F(LogTest, AFullDiskFailsTheWaitersAndTheLogRecovers) {
  must_open();
  ASSERT_TRUE(add("before"));
  disk.set_capacity(disk.used_bytes());
  Status status = add(std::string(10000, 'x'));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::kNoSpace);
  disk.set_capacity(1 << 30);
  ASSERT_TRUE(add("after"));
  must_open();
  EXPECT_EQ(records(), (std::vector<std::string>{"before", std::string(10000, 'x'), "after"}));
}

TEST_F(LogTest, AFailedSyncClosesTheLogForWriting) {
  must_open();
  ASSERT_TRUE(add("before"));
  disk.set_fault([](const MemoryDisk::Access& access) -> std::optional<Error> {
    if (access.operation == Operation::kSync) return Error{Errc::kIo, "injected"};
    return std::nullopt;
  });
  Status status = add("lost");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::kIo);
  disk.set_fault(nullptr);
  EXPECT_FALSE(add("never accepted"));
  disk.crash(Crash::kDropUnsynced);
  must_open();
  EXPECT_EQ(records(), std::vector<std::string>{"before"});
  EXPECT_TRUE(add("after"));
}

// Some lengths are those of earlier records, so that a segment's records lie where those of the one before
// lay.
std::string record_of(std::uint64_t number) {
  return fmt::format("{:0>{}}", number, number % 3 == 0 ? 150 : 100 + number * 37 % 90);
}

// Power fails at every disk operation in turn of a run that fills and trims several segments, and writes over
// some: every record whose sync had ended well is there, none is doubled, and the log can be used again.
TEST_F(LogTest, ACrashAtEveryOperationLosesNothingAcknowledged) {
  options.segment_bytes = 700;
  options.spares = 2;
  std::uint64_t total = 0;
  for (std::uint64_t crash_at = 1; crash_at < 300; ++crash_at) {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      MemoryDisk fresh(loop);
      std::uint64_t acknowledged = 0, trimmed = 1, first = 0, last = 0;
      bool crashed = false;
      fresh.set_fault([&](const MemoryDisk::Access&) -> std::optional<Error> {
        if (crashed || fresh.operations() < crash_at) return std::nullopt;
        crashed = true;
        fresh.crash(seed == 0 ? Crash::kDropUnsynced : Crash::kSeeded, seed * 1000 + crash_at);
        return std::nullopt;
      });
      auto opened =
          wait(Log::open(loop, fresh, metrics, options, [](LogSequence, ByteView) { return Status{}; }));
      for (std::uint64_t i = 1; opened && !crashed && i <= 40; ++i) {
        auto sequence = (*opened)->append(as_bytes(record_of(i)));
        if (sequence && wait((*opened)->sync(*sequence))) acknowledged = sequence->value;
        if (i % 5 == 0 && acknowledged == i) {
          trimmed = i;  // from here on a crash may find it done or not
          (void)wait((*opened)->trim({i}));
        }
      }
      if (opened) opened->reset();
      fresh.set_fault(nullptr);
      total += crashed ? 1 : 0;
      auto again = wait(Log::open(loop, fresh, metrics, options, [&](LogSequence at, ByteView record) {
        EXPECT_EQ(as_text(record), record_of(at.value));
        if (first == 0) first = at.value;
        last = at.value;
        return Status{};
      }));
      ASSERT_TRUE(again) << crash_at << " " << seed << ": " << again.error().message;
      EXPECT_GE(last, acknowledged) << crash_at;
      if (acknowledged > 0) EXPECT_LE(first, trimmed) << crash_at;
      EXPECT_TRUE(wait((*again)->sync(*(*again)->append(as_bytes("more")))));
      EXPECT_EQ((*again)->last().value, std::max(last + 1, std::uint64_t{1}));
    }
  }
  EXPECT_GT(total, 500u);  // the run has that many points to crash at
  EXPECT_GT(metric("log_segments_recycled_total"), 1000u);
}

}  // namespace
}  // namespace slice::storage
