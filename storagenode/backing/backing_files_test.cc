// Backing sets of one node, on a disk that forgets what was not synced: order, fencing, sessions, what is
// known after a start.
#include "storagenode/backing/backing_files.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "common/crc32c.h"
#include "common/manual_loop.h"
#include "storage/memory_disk.h"

namespace slice::storagenode {
namespace {

using namespace std::chrono_literals;
using storage::MemoryDisk;
using wire::BackingAttachArgs;
using wire::BackingChange;
using wire::BackingChangeArgs;
using wire::BackingOp;
using wire::BackingOwner;
using wire::BackingStatus;
using Operation = MemoryDisk::Operation;

constexpr std::uint64_t kDiskBytes = 64 << 20;

BackingOwner owner(std::uint64_t epoch, std::uint32_t server = 3) {
  return {.server = server, .epoch = BackingEpoch{epoch}, .instance = 1000 + epoch};
}
BackingChange write(std::string path, std::string_view bytes, std::uint64_t offset = 0) {
  return {.op = BackingOp::kWrite, .path = std::move(path), .offset = offset, .bytes = as_bytes(bytes)};
}
BackingChange sync(std::string path) {
  return {.op = BackingOp::kSync, .path = std::move(path)};
}
BackingChange rename(std::string from, std::string_view to) {
  return {.op = BackingOp::kRename, .path = std::move(from), .bytes = as_bytes(to)};
}

template <class T>
Task<void> keep(Task<T> task, std::shared_ptr<std::optional<T>> slot) {
  slot->emplace(co_await task);
}

class BackingFilesTest : public ::testing::Test {
 protected:
  BackingFilesTest() { start(); }
  ~BackingFilesTest() override {
    bool ended = false;
    spawn([](BackingFiles& stopped, bool& done) -> Task<void> {
      co_await stopped.stop();
      done = true;
    }(*files, ended));
    EXPECT_TRUE(loop.run_until([&] { return ended; }));
  }

  // What a call answered, when it has.
  template <class T>
  using Answer = std::shared_ptr<std::optional<T>>;
  template <class T>
  Answer<T> begin(Task<T> task) {
    auto slot = std::make_shared<std::optional<T>>();
    spawn(keep(std::move(task), slot));
    loop.run_ready();
    return slot;
  }
  template <class T>
  T run(Task<T> task) {
    auto slot = begin(std::move(task));
    EXPECT_TRUE(loop.run_until([&] { return slot->has_value(); }));
    return std::move(**slot);
  }

  void start() {
    session = disk.session();
    files = std::make_unique<BackingFiles>(BackingFiles::Seams{
        .loop = loop, .disk = *session, .metrics = metrics, .crash = crash_points, .reserve = [this] {
          return reserve;
        }});
    ASSERT_TRUE(run(files->start()));
  }
  void crash(MemoryDisk::Crash how = MemoryDisk::Crash::kDropUnsynced) {
    disk.crash(how);
    retired.emplace_back(std::move(session), std::move(files));
    start();
  }

  wire::BackingAttachResult attach(BackingAttachArgs args) { return run(files->attach(args)); }
  // Of a set that is new here.
  void attach_empty(std::uint64_t epoch = 1, std::uint32_t server = 3) {
    ASSERT_EQ(attach({.owner = owner(epoch, server), .empty = true}).status, BackingStatus::kOk);
  }
  Answer<wire::BackingChangeResult> begin_change(std::uint64_t number, std::vector<BackingChange> changes,
                                                 std::uint64_t epoch = 1, bool whole = true) {
    calls.push_back(std::make_unique<BackingChangeArgs>(
        BackingChangeArgs{owner(epoch), number, whole, std::move(changes)}));
    return begin(files->change(*calls.back()));
  }
  BackingStatus change(std::uint64_t number, std::vector<BackingChange> changes, std::uint64_t epoch = 1,
                       bool whole = true) {
    auto answer = begin_change(number, std::move(changes), epoch, whole);
    EXPECT_TRUE(loop.run_until([&] { return answer->has_value(); }));
    return (*answer)->status;
  }
  BackingStatus let_go(std::uint64_t epoch) { return run(files->let_go({owner(epoch)})).status; }
  BackingStatus renew(std::uint64_t epoch) { return files->renew({owner(epoch)}).status; }
  // "?" and the status where it is not ok.
  std::string read(std::string path, std::uint64_t epoch = 1, std::uint64_t after = 0) {
    Buffer into;
    const wire::BackingReadArgs args{owner(epoch), std::move(path), 0, 4096, after};
    auto result = run(files->read(args, into));
    if (result.status != BackingStatus::kOk)
      return "?" + std::string(wire::backing_status_name(result.status));
    return std::string(as_text(result.bytes));
  }
  std::vector<std::string> listed(std::uint64_t epoch = 1) {
    const wire::BackingListArgs args{owner(epoch), "", 0};
    auto result = run(files->list(args));
    EXPECT_EQ(result.status, BackingStatus::kOk);
    EXPECT_TRUE(result.end);
    std::vector<std::string> paths;
    for (const auto& each : result.files) paths.push_back(each.path);
    return paths;
  }
  std::uint64_t refused(const std::string& reason) {
    return metrics.counter("storage_backing_refused_total{reason=\"" + reason + "\"}").value();
  }
  void fail_once(Operation operation, std::string_view path, Errc code) {
    disk.set_fault([=, failed = std::make_shared<bool>(false)](
                       const MemoryDisk::Access& access) -> std::optional<Error> {
      if (access.operation != operation || !access.path.ends_with(path) || std::exchange(*failed, true))
        return std::nullopt;
      return Error{code, "injected"};
    });
  }

  ManualLoop loop;
  MemoryDisk disk{loop, {.capacity_bytes = kDiskBytes}};
  Metrics metrics;
  CrashPoints crash_points;
  std::uint64_t reserve = 0;
  std::vector<std::unique_ptr<BackingChangeArgs>> calls;
  std::unique_ptr<storage::Disk> session;
  std::unique_ptr<BackingFiles> files;
  std::vector<std::pair<std::unique_ptr<storage::Disk>, std::unique_ptr<BackingFiles>>> retired;
};

TEST_F(BackingFilesTest, ChangesOfEveryKind) {
  attach_empty();
  EXPECT_EQ(change(1, {write("log/1.log", "abcdef"), {.op = BackingOp::kCreate, .path = "empty"}}),
            BackingStatus::kOk);
  EXPECT_EQ(read("log/1.log"), "abcdef");
  EXPECT_EQ(change(2, {{.op = BackingOp::kTruncate, .path = "log/1.log", .length = 3},
                       {.op = BackingOp::kPunch, .path = "log/1.log", .offset = 0, .length = 1},
                       {.op = BackingOp::kPunch, .path = "none", .length = 1},
                       {.op = BackingOp::kTruncate, .path = "long", .length = 2}}),
            BackingStatus::kOk);
  EXPECT_EQ(read("log/1.log"), std::string("\0bc", 3));
  EXPECT_EQ(read("long"), std::string(2, '\0'));
  EXPECT_EQ(change(3, {rename("log/1.log", "log/2.log"),
                       rename("none", "long"),
                       {.op = BackingOp::kRemove, .path = "none"},
                       sync("none"),
                       {.op = BackingOp::kRemove, .path = "empty"}}),
            BackingStatus::kOk);
  EXPECT_EQ(listed(), (std::vector<std::string>{"log/2.log", "long"}));
  EXPECT_EQ(read("empty"), "?not found");
  EXPECT_EQ(metrics.counter("storage_backing_changes_total").value(), 3u);
  EXPECT_EQ(metrics.counter("storage_backing_bytes_written_total").value(), 6u);
  EXPECT_EQ(metrics.counter("storage_backing_sets").value(), 1u);
}

TEST_F(BackingFilesTest, CallsAreCarriedOutInTheirOrderAndOnce) {
  attach_empty();
  auto third = begin_change(3, {write("f", "3"), write("g", "x")});
  auto second = begin_change(2, {write("f", "2"), {.op = BackingOp::kRemove, .path = "g"}});
  auto after = std::make_unique<wire::BackingReadArgs>(wire::BackingReadArgs{owner(1), "f", 0, 9, 3});
  Buffer bytes;
  auto reading = begin(files->read(*after, bytes));
  loop.advance(1s);
  EXPECT_FALSE(second->has_value() || third->has_value() || reading->has_value());
  EXPECT_EQ(change(1, {write("f", "1"), write("g", "y")}), BackingStatus::kOk);
  loop.run_ready();
  ASSERT_TRUE(second->has_value() && third->has_value() && reading->has_value());
  EXPECT_EQ((*third)->applied, 3u);
  EXPECT_EQ(as_text((*reading)->bytes), "3");
  EXPECT_EQ(read("g"), "x");
  EXPECT_EQ(change(1, {write("f", "1"), write("g", "y")}), BackingStatus::kOk) << "as it was answered before";
  EXPECT_EQ(read("f"), "3");
  EXPECT_EQ(read("g"), "x");
}

// Who stands by, and owns nothing.
TEST_F(BackingFilesTest, NobodyMayReadAndNothingElse) {
  EXPECT_EQ(read("f", 0), "?gap") << "there is no set";
  attach_empty();
  EXPECT_EQ(change(1, {write("f", "1")}), BackingStatus::kOk);
  EXPECT_EQ(read("f", 0, 7), "1") << "of no order";
  EXPECT_EQ(read("g", 0), "?not found");
  const wire::BackingListArgs list{owner(0), "", 0};
  EXPECT_EQ(run(files->list(list)).files.size(), 1u);
  EXPECT_EQ(change(2, {write("f", "2")}, 0), BackingStatus::kStale);
  EXPECT_EQ(files->renew({owner(0)}).status, BackingStatus::kStale);
  EXPECT_EQ(run(files->attach({.owner = owner(0)})).status, BackingStatus::kStale);
  EXPECT_EQ(change(2, {write("f", "2")}), BackingStatus::kOk) << "the owner is who it was";
}

TEST_F(BackingFilesTest, WhatComesBehindAGapIsRefusedInTime) {
  attach_empty();
  EXPECT_EQ(change(1, {write("f", "1")}), BackingStatus::kOk);
  auto third = begin_change(3, {write("f", "3")});
  const wire::BackingListArgs list{owner(1), "", 2};
  auto listing = begin(files->list(list));
  loop.advance(1900ms);
  EXPECT_FALSE(third->has_value());
  loop.advance(200ms);
  ASSERT_TRUE(third->has_value() && listing->has_value());
  EXPECT_EQ((*third)->status, BackingStatus::kGap);
  EXPECT_EQ((*third)->applied, 1u);
  EXPECT_EQ((*listing)->status, BackingStatus::kGap);
  EXPECT_EQ(refused("gap"), 2u);
  EXPECT_EQ(change(2, {write("f", "2")}), BackingStatus::kOk);
  EXPECT_EQ(change(3, {write("f", "3")}), BackingStatus::kOk);
  EXPECT_EQ(read("f"), "3");
}

TEST_F(BackingFilesTest, ASlowCallIsNoGap) {
  attach_empty();
  disk.set_delay(5s, 5s);
  auto first = begin_change(1, {write("f", "1")});
  auto second = begin_change(2, {write("f", "2")});
  EXPECT_TRUE(loop.run_until([&] { return second->has_value(); }));
  EXPECT_EQ((*first)->status, BackingStatus::kOk);
  EXPECT_EQ((*second)->status, BackingStatus::kOk);
  disk.set_delay(0s, 0s);
}

TEST_F(BackingFilesTest, SoManyCallsWaitAndNoMore) {
  attach_empty();
  std::vector<Answer<wire::BackingChangeResult>> waiting;
  for (std::uint64_t i = 0; i < SetCopy::kMostWaiting; ++i)
    waiting.push_back(begin_change(i + 2, {write("f", "1")}));
  auto over = begin_change(1000, {write("f", "x")});
  ASSERT_TRUE(over->has_value());
  EXPECT_EQ((*over)->status, BackingStatus::kGap);
  EXPECT_EQ(change(1, {}), BackingStatus::kOk);
  EXPECT_TRUE(loop.run_until([&] { return waiting.back()->has_value(); }));
  for (auto& each : waiting) EXPECT_EQ((*each)->status, BackingStatus::kOk);
}

TEST_F(BackingFilesTest, ASyncDoesNotHoldBackTheNextCall) {
  attach_empty();
  EXPECT_EQ(change(1, {write("f", "1"), write("g", "1")}), BackingStatus::kOk);
  disk.set_delay(1s, 1s);
  auto synced = begin_change(2, {sync("f")});
  auto written = begin_change(3, {write("g", "2")});
  loop.advance(1s);
  EXPECT_TRUE(written->has_value());
  EXPECT_TRUE(loop.run_until([&] { return synced->has_value(); }));
  disk.set_delay(0s, 0s);
}

TEST_F(BackingFilesTest, OnlyWhatWasSyncedOutlivesACrashAndNobodyKnows) {
  attach_empty();
  EXPECT_EQ(change(1, {write("a/b", "synced"), sync("a/b"), write("f", "lost")}), BackingStatus::kOk);
  EXPECT_EQ(change(2, {{.op = BackingOp::kCreate, .path = "c"},
                       rename("a/b", "a/d"),
                       {.op = BackingOp::kSyncFolder, .path = "a"}}),
            BackingStatus::kOk);
  crash();
  EXPECT_EQ(read("a/d"), "?gap") << "nobody has attached to this run of the node";
  EXPECT_EQ(change(3, {write("a/d", "x")}), BackingStatus::kGap);
  auto again = attach({.owner = owner(1)});
  EXPECT_EQ(again.status, BackingStatus::kOk);
  EXPECT_EQ(again.known, BackingEpoch{1});
  EXPECT_EQ(again.changed, BackingEpoch{0});
  EXPECT_EQ(listed(), (std::vector<std::string>{"a/d", "c", "f"}));
  EXPECT_EQ(read("a/d"), "synced");
  EXPECT_EQ(read("f"), "") << "its name was synced, and no more";
  EXPECT_EQ(change(3, {write("a/d", "x")}), BackingStatus::kGap) << "2 is not known to have come";
}

TEST_F(BackingFilesTest, ANodeThatWasFilledIsKnownFromItsFirstWholeCallOn) {
  attach_empty();
  EXPECT_EQ(change(1, {write("f", "1")}), BackingStatus::kOk);
  crash();
  EXPECT_EQ(attach({.owner = owner(1), .begins_behind = 40}).status, BackingStatus::kOk);
  EXPECT_EQ(change(41, {write("f", "a")}, 1, false), BackingStatus::kOk);
  EXPECT_EQ(attach({.owner = owner(1)}).changed, BackingEpoch{0});
  EXPECT_EQ(change(42, {}, 1, true), BackingStatus::kOk);
  auto whole = attach({.owner = owner(1)});
  EXPECT_EQ(whole.changed, BackingEpoch{1});
  EXPECT_EQ(whole.applied, 42u);
  EXPECT_EQ(change(43, {write("f", "b")}, 1, false), BackingStatus::kOk);
  EXPECT_EQ(attach({.owner = owner(1)}).changed, BackingEpoch{0});
  EXPECT_EQ(attach({.owner = owner(1), .empty = true, .begins_behind = 5}).status, BackingStatus::kOk);
  EXPECT_EQ(read("f"), "b") << "it was attached: only what is new is heard";
  EXPECT_EQ(change(44, {write("f", "c")}), BackingStatus::kOk);
}

// What an owner wrote, also without a sync, its successor finds durable; and who wrote it stays known until
// the successor's first change.
TEST_F(BackingFilesTest, ANewOwnerFindsWhatTheFormerWroteAndDurable) {
  attach_empty();
  EXPECT_EQ(change(1, {write("f", "1"), {.op = BackingOp::kCreate, .path = "g"}}), BackingStatus::kOk);
  loop.advance(3s);
  auto taken = attach({.owner = owner(2)});
  EXPECT_EQ(taken.status, BackingStatus::kOk);
  EXPECT_EQ(taken.known, BackingEpoch{1});
  EXPECT_EQ(taken.changed, BackingEpoch{1});
  EXPECT_EQ(taken.applied, 1u);
  EXPECT_EQ(change(2, {write("f", "2")}), BackingStatus::kStale);
  EXPECT_EQ(change(2, {write("new", "2")}), BackingStatus::kStale) << "also of files that are not there";
  EXPECT_EQ(renew(1), BackingStatus::kStale);
  EXPECT_EQ(let_go(1), BackingStatus::kStale);
  EXPECT_EQ(read("f", 1), "?stale");
  EXPECT_EQ(attach({.owner = owner(1)}).status, BackingStatus::kStale);
  EXPECT_EQ(attach({.owner = {3, BackingEpoch{2}, 77}}).status, BackingStatus::kStale) << "another run of it";
  EXPECT_GE(refused("stale"), 7u);
  crash();
  EXPECT_EQ(change(2, {write("f", "2")}), BackingStatus::kStale) << "durably";
  auto again = attach({.owner = owner(2)});
  EXPECT_EQ(again.status, BackingStatus::kOk);
  EXPECT_EQ(again.changed, BackingEpoch{1}) << "nobody has changed anything since";
  EXPECT_EQ(listed(2), (std::vector<std::string>{"f", "g"}));
  EXPECT_EQ(read("f", 2), "1");
  EXPECT_EQ(change(1, {write("f", "x")}, 2), BackingStatus::kOk);
  EXPECT_EQ(attach({.owner = owner(2)}).changed, BackingEpoch{2});
  crash();
  EXPECT_EQ(attach({.owner = owner(2)}).changed, BackingEpoch{0});
}

TEST_F(BackingFilesTest, AnAttachWaitsForTheFormerOwnersSession) {
  attach_empty();
  loop.advance(2s);
  EXPECT_EQ(renew(1), BackingStatus::kOk);
  loop.advance(2s);
  auto held = attach({.owner = owner(2)});
  EXPECT_EQ(held.status, BackingStatus::kHeld);
  EXPECT_EQ(held.wait_ms, 1000u);
  EXPECT_EQ(held.known, BackingEpoch{1});
  EXPECT_EQ(change(1, {write("f", "1")}), BackingStatus::kOk) << "nobody else has it";
  EXPECT_EQ(attach({.owner = owner(2), .former = 77}).status, BackingStatus::kHeld);
  EXPECT_EQ(attach({.owner = owner(2), .former = owner(1).instance}).status, BackingStatus::kOk);
  loop.advance(3s);
  EXPECT_EQ(renew(2), BackingStatus::kOk) << "there is no other";
  EXPECT_EQ(attach({.owner = owner(3)}).status, BackingStatus::kHeld);
  loop.advance(3s);
  EXPECT_EQ(attach({.owner = owner(3)}).status, BackingStatus::kOk);
}

TEST_F(BackingFilesTest, ANodeThatStartsTakesItThatThereIsASession) {
  attach_empty();
  loop.advance(10s);
  crash();
  EXPECT_EQ(attach({.owner = owner(2)}).wait_ms, 3000u);
  loop.advance(1s);
  EXPECT_EQ(renew(1), BackingStatus::kOk);
  loop.advance(2500ms);
  EXPECT_EQ(attach({.owner = owner(2)}).status, BackingStatus::kHeld);
  loop.advance(500ms);
  EXPECT_EQ(attach({.owner = owner(2)}).status, BackingStatus::kOk);
}

// A call of the former owner that is under way ends before the new one is answered, and one that waits for
// its turn has no turn any more.
TEST_F(BackingFilesTest, NothingOfTheFormerOwnerComesBehindAnAttach) {
  attach_empty();
  disk.set_delay(1s, 1s);
  auto slow = begin_change(1, {write("f", "1"), write("g", "1")});
  auto waits = begin_change(2, {write("f", "2")});
  auto later = begin_change(9, {write("late", "9")});
  auto taken = begin(files->attach({.owner = owner(2), .former = owner(1).instance}));
  ASSERT_TRUE(loop.run_until([&] { return taken->has_value(); }));
  ASSERT_TRUE(slow->has_value() && waits->has_value() && later->has_value());
  EXPECT_EQ((*taken)->status, BackingStatus::kOk);
  EXPECT_EQ((*taken)->changed, BackingEpoch{1});
  EXPECT_EQ((*taken)->applied, 1u);
  EXPECT_EQ((*slow)->status, BackingStatus::kOk);
  EXPECT_EQ((*waits)->status, BackingStatus::kStale);
  EXPECT_EQ((*later)->status, BackingStatus::kStale);
  disk.set_delay(0s, 0s);
  EXPECT_EQ(listed(2), (std::vector<std::string>{"f", "g"}));
  EXPECT_EQ(read("f", 2), "1");
  crash();
  EXPECT_EQ(attach({.owner = owner(2)}).status, BackingStatus::kOk);
  EXPECT_EQ(read("g", 2), "1");
}

TEST_F(BackingFilesTest, WhatIsLetGoIsKnownAfterAStart) {
  attach_empty();
  EXPECT_EQ(change(1, {write("f", "1")}), BackingStatus::kOk);
  EXPECT_EQ(let_go(1), BackingStatus::kOk);
  EXPECT_EQ(let_go(1), BackingStatus::kOk) << "the answer may have been lost";
  EXPECT_EQ(change(2, {write("f", "2")}), BackingStatus::kStale);
  EXPECT_EQ(renew(1), BackingStatus::kStale);
  EXPECT_EQ(attach({.owner = owner(1)}).status, BackingStatus::kStale);
  crash();
  auto taken = attach({.owner = owner(2)});
  EXPECT_EQ(taken.status, BackingStatus::kOk) << "there is no session";
  EXPECT_EQ(taken.changed, BackingEpoch{1});
  EXPECT_EQ(taken.applied, 1u);
  EXPECT_EQ(read("f", 2), "1");
}

TEST_F(BackingFilesTest, WhatAnEarlierRunOfTheNodeLeftInMemoryIsSyncedForANewOwner) {
  attach_empty();
  EXPECT_EQ(change(1, {write("f", "1"), write("g", "1")}), BackingStatus::kOk);
  crash(MemoryDisk::Crash::kProcess);
  EXPECT_EQ(attach({.owner = owner(1)}).changed, BackingEpoch{0});
  crash();
  EXPECT_EQ(attach({.owner = owner(1)}).status, BackingStatus::kOk);
  EXPECT_EQ(listed(), (std::vector<std::string>{"f", "g"}));
  EXPECT_EQ(read("f"), "1");
}

TEST_F(BackingFilesTest, EmptyTakesAwayWhatWasThere) {
  attach_empty();
  EXPECT_EQ(change(1, {write("f", "1"), write("a/b", "2"), sync("f"), sync("a/b")}), BackingStatus::kOk);
  auto taken = attach({.owner = owner(2), .former = owner(1).instance, .empty = true});
  EXPECT_EQ(taken.status, BackingStatus::kOk);
  EXPECT_EQ(taken.changed, BackingEpoch{2});
  EXPECT_EQ(taken.applied, 0u);
  EXPECT_TRUE(listed(2).empty());
  crash();
  EXPECT_EQ(attach({.owner = owner(2)}).status, BackingStatus::kOk);
  EXPECT_TRUE(listed(2).empty()) << "durably";
}

TEST_F(BackingFilesTest, ListsInPages) {
  attach_empty();
  const std::vector<std::string> odd{"a", "a-b", "a/b", "a0"};
  std::vector<BackingChange> some;
  for (const std::string& each : odd) some.push_back(write(each, "x"));
  EXPECT_EQ(change(1, some), BackingStatus::kOk);
  EXPECT_EQ(listed(), odd);
  std::uint64_t number = 2;
  std::size_t made = odd.size();
  while (made < wire::kMaxBackingListed + 100) {
    std::vector<BackingChange> more;
    for (int i = 0; i < 100; ++i) more.push_back(write("z" + std::to_string(made++), "xyz"));
    EXPECT_EQ(change(number++, std::move(more)), BackingStatus::kOk);
  }
  wire::BackingListArgs args{owner(1), "", 0};
  auto page = run(files->list(args));
  EXPECT_EQ(page.files.size(), wire::kMaxBackingListed);
  EXPECT_FALSE(page.end);
  EXPECT_EQ(page.files.back().size, 3u);
  EXPECT_EQ(page.files.back().allocated, 4096u);
  args.behind = page.files.back().path;
  auto rest = run(files->list(args));
  EXPECT_EQ(rest.files.size(), made - wire::kMaxBackingListed);
  EXPECT_GT(rest.files.front().path, args.behind);
  EXPECT_TRUE(rest.end);
}

TEST_F(BackingFilesTest, DigestsOfPieces) {
  attach_empty();
  const std::string piece(wire::kBackingPiece, 'p');
  std::uint64_t number = 1;
  for (std::uint64_t i = 0; i < 3; ++i)
    EXPECT_EQ(change(number++, {write("f", piece, i * wire::kBackingPiece)}), BackingStatus::kOk);
  EXPECT_EQ(change(number++, {write("f", "tail", 3 * wire::kBackingPiece)}), BackingStatus::kOk);
  const std::uint32_t full = crc32c(as_bytes(piece)), tail = crc32c(as_bytes("tail"));
  const wire::BackingDigestArgs all{owner(1), "f", 0, 100, 4}, part{owner(1), "f", 1, 1, 0},
      none{owner(1), "f", 9, 1, 0}, missing{owner(1), "g", 0, 1, 0};
  auto result = run(files->digest(all));
  EXPECT_EQ(result.size, 3 * wire::kBackingPiece + 4);
  EXPECT_EQ(result.digests, (std::vector<std::uint32_t>{full, full, full, tail}));
  EXPECT_EQ(run(files->digest(part)).digests, (std::vector<std::uint32_t>{full}));
  EXPECT_TRUE(run(files->digest(none)).digests.empty());
  EXPECT_EQ(run(files->digest(missing)).status, BackingStatus::kNotFound);
}

TEST_F(BackingFilesTest, TheReserveIsNotForThem) {
  attach_empty();
  EXPECT_EQ(change(1, {write("f", std::string(8192, 'a'))}), BackingStatus::kOk);
  reserve = kDiskBytes;
  EXPECT_EQ(attach({.owner = owner(1)}).free_bytes, 0u);
  EXPECT_EQ(change(2, {{.op = BackingOp::kCreate, .path = "g"}}), BackingStatus::kNoSpace);
  EXPECT_EQ(change(2, {write("f", "x", 8192)}), BackingStatus::kNoSpace);
  EXPECT_EQ(change(2, {write("f", "x", 5)}), BackingStatus::kOk) << "it has its place";
  EXPECT_EQ(change(3, {{.op = BackingOp::kRemove, .path = "f"}}), BackingStatus::kOk);
  reserve = 0;
  auto left = attach({.owner = owner(1)});
  EXPECT_EQ(left.changed, BackingEpoch{1});
  EXPECT_EQ(left.applied, 3u);
  EXPECT_EQ(left.total_bytes, kDiskBytes);
  EXPECT_GT(left.free_bytes, kDiskBytes - 65536);
}

// The second attempt goes on behind what the first one has done: a rename must not be done twice.
TEST_F(BackingFilesTest, ACallThatFailsHalfwayGoesOnWhereItStopped) {
  attach_empty();
  EXPECT_EQ(change(1, {write("a", "old")}), BackingStatus::kOk);
  fail_once(Operation::kWrite, "files/c", Errc::kNoSpace);
  auto third = begin_change(3, {write("d", "3")});
  const std::vector<BackingChange> call{rename("a", "b"), write("a", "new"), write("c", "c"), sync("a")};
  EXPECT_EQ(change(2, call), BackingStatus::kNoSpace);
  EXPECT_FALSE(third->has_value());
  EXPECT_EQ(attach({.owner = owner(1)}).changed, BackingEpoch{0}) << "half of a call is in it";
  EXPECT_EQ(change(2, call), BackingStatus::kOk);
  EXPECT_TRUE(loop.run_until([&] { return third->has_value(); }));
  EXPECT_EQ((*third)->status, BackingStatus::kOk);
  EXPECT_EQ(read("b"), "old");
  EXPECT_EQ(read("a"), "new");
  EXPECT_EQ(attach({.owner = owner(1)}).applied, 3u);
  crash();
  EXPECT_EQ(attach({.owner = owner(1)}).status, BackingStatus::kOk);
  EXPECT_EQ(read("a"), "new") << "it was synced";
}

TEST_F(BackingFilesTest, AfterAFailedSyncNothingIsTakenUntilTheNodeStarts) {
  attach_empty();
  EXPECT_EQ(change(1, {write("f", "1"), write("g", "1"), sync("g")}), BackingStatus::kOk);
  fail_once(Operation::kSync, "files/f", Errc::kIo);
  auto waits = begin_change(3, {write("f", "3")});
  EXPECT_EQ(change(2, {sync("f")}), BackingStatus::kIo);
  loop.run_ready();
  ASSERT_TRUE(waits->has_value());
  EXPECT_EQ((*waits)->status, BackingStatus::kIo);
  EXPECT_EQ(change(2, {sync("f")}), BackingStatus::kIo) << "again: the bytes are lost";
  EXPECT_EQ(renew(1), BackingStatus::kIo);
  EXPECT_EQ(let_go(1), BackingStatus::kIo);
  EXPECT_EQ(attach({.owner = owner(1)}).status, BackingStatus::kIo);
  EXPECT_EQ(read("g"), "?I/O error");
  EXPECT_GE(refused("I/O error"), 6u);
  loop.advance(3s);
  crash();
  EXPECT_EQ(attach({.owner = owner(1)}).changed, BackingEpoch{0});
  EXPECT_EQ(read("g"), "1");
}

TEST_F(BackingFilesTest, AnEpochThatCouldNotBeKeptIsNotAnswered) {
  attach_empty();
  EXPECT_EQ(change(1, {write("f", "1")}), BackingStatus::kOk);
  loop.advance(3s);
  fail_once(Operation::kRename, "state.new", Errc::kIo);
  EXPECT_EQ(attach({.owner = owner(2)}).status, BackingStatus::kIo);
  EXPECT_EQ(change(1, {write("f", "x")}, 2), BackingStatus::kGap) << "it is not attached";
  auto again = attach({.owner = owner(2)});
  EXPECT_EQ(again.status, BackingStatus::kOk);
  EXPECT_EQ(again.changed, BackingEpoch{1});
  EXPECT_EQ(again.applied, 1u);
}

TEST_F(BackingFilesTest, ADamagedSetIsRefusedAndLosesNothing) {
  attach_empty(1, 3);
  attach_empty(1, 4);
  EXPECT_EQ(change(1, {write("f", "1"), sync("f")}), BackingStatus::kOk);
  ASSERT_TRUE(disk.corrupt("backing/00000003/state", 13, 1));
  const auto before = disk.paths();
  crash();
  EXPECT_EQ(attach({.owner = owner(1)}).status, BackingStatus::kIo);
  EXPECT_EQ(attach({.owner = owner(9), .empty = true}).status, BackingStatus::kIo);
  EXPECT_EQ(change(1, {write("f", "x")}), BackingStatus::kIo);
  EXPECT_EQ(disk.paths(), before);
  EXPECT_EQ(attach({.owner = owner(1, 4)}).status, BackingStatus::kOk) << "the others are well";
}

TEST_F(BackingFilesTest, FilesWithoutAStateAreADamagedSet) {
  attach_empty();
  EXPECT_EQ(change(1, {write("f", "1"), sync("f")}), BackingStatus::kOk);
  ASSERT_TRUE(run(disk.remove("backing/00000003/state")));
  ASSERT_TRUE(run(disk.sync_folder("backing/00000003")));
  crash();
  EXPECT_EQ(attach({.owner = owner(9), .empty = true}).status, BackingStatus::kIo);
}

TEST_F(BackingFilesTest, ManySetsAndManyFiles) {
  for (std::uint32_t server = 0; server < BackingFiles::kMostSets; ++server) attach_empty(1, server);
  EXPECT_EQ(attach({.owner = owner(1, 5000)}).status, BackingStatus::kNoSpace);
  EXPECT_EQ(renew(1), BackingStatus::kOk);
  EXPECT_EQ(files->renew({owner(1, 5000)}).status, BackingStatus::kGap);
  // More files than are kept open: what is closed is synced before.
  std::vector<BackingChange> some;
  for (std::size_t i = 0; i < 10 * BackingFiles::kLeastOpen; ++i)
    some.push_back(write("f" + std::to_string(i), "x"));
  EXPECT_EQ(change(1, some), BackingStatus::kOk);
  some.clear();
  for (std::size_t i = 0; i < 10 * BackingFiles::kLeastOpen; ++i)
    some.push_back(sync("f" + std::to_string(i)));
  EXPECT_EQ(change(2, some), BackingStatus::kOk);
  crash();
  EXPECT_EQ(attach({.owner = owner(1)}).status, BackingStatus::kOk);
  EXPECT_EQ(listed().size(), 10 * BackingFiles::kLeastOpen);
  EXPECT_EQ(read("f7"), "x");
}

// A crash at every operation of a hand-over: the former owner is either refused for good or still the one,
// and what was synced is there.
TEST_F(BackingFilesTest, ACrashAtAnyPointOfAHandOver) {
  attach_empty();
  EXPECT_EQ(change(1, {write("f", "1"), sync("f"), write("g", "1")}), BackingStatus::kOk);
  for (std::uint64_t epoch = 2, at = 0;; ++epoch, ++at) {
    std::uint64_t left = at;
    bool died = false;
    disk.set_fault([&](const MemoryDisk::Access&) -> std::optional<Error> {
      if (died || left-- > 0) return std::nullopt;
      died = true;
      disk.crash(MemoryDisk::Crash::kSeeded, epoch);
      return Error{Errc::kIo, "crashed"};
    });
    loop.advance(3s);
    auto taken = attach({.owner = owner(epoch)});
    disk.set_fault({});
    if (!died) {
      EXPECT_EQ(taken.status, BackingStatus::kOk);
      EXPECT_GT(at, 4u);
      break;
    }
    retired.emplace_back(std::move(session), std::move(files));
    start();
    EXPECT_NE(taken.status, BackingStatus::kOk);
    EXPECT_NE(change(2, {write("f", "2")}), BackingStatus::kOk);
    loop.advance(3s);
    auto again = attach({.owner = owner(++epoch)});
    EXPECT_EQ(again.status, BackingStatus::kOk) << at;
    EXPECT_EQ(read("f", epoch), "1") << at;
  }
}

TEST_F(BackingFilesTest, ACrashAtEachNamedPoint) {
  std::string dies_at;
  bool died = false;
  crash_points.set([&](std::string_view point) { return died = died || point == dies_at; });
  // What the former owner had done is there, the latter has it for good, and the contents are known as far as
  // nothing has changed them.
  auto play = [&](const std::string& point, std::uint64_t epoch, auto call) {
    dies_at = point;
    auto answer = begin(call());
    ASSERT_TRUE(loop.run_until([&] { return died; })) << point;
    dies_at.clear();
    EXPECT_FALSE(answer->has_value());
    crash();
    died = false;
    loop.advance(3s);
    EXPECT_EQ(attach({.owner = owner(epoch - 1)}).status, BackingStatus::kStale) << point;
  };
  attach_empty(1);
  EXPECT_EQ(change(1, {write("f", "1"), sync("f")}), BackingStatus::kOk);
  loop.advance(3s);
  play("backing.owner", 2, [&] { return files->attach({.owner = owner(2)}); });
  EXPECT_EQ(attach({.owner = owner(2)}).changed, BackingEpoch{1});
  EXPECT_EQ(read("f", 2), "1");
  const BackingChangeArgs first{owner(2), 1, true, {write("f", "2"), sync("f")}};
  play("backing.changes", 2, [&] { return files->change(first); });
  EXPECT_EQ(attach({.owner = owner(2)}).changed, BackingEpoch{0}) << "some of it may have been carried out";
  EXPECT_EQ(change(1, {write("f", "2"), sync("f")}, 2), BackingStatus::kOk);
  play("backing.let_go", 2, [&] { return files->let_go({owner(2)}); });
  auto third = attach({.owner = owner(3)});
  EXPECT_EQ(third.status, BackingStatus::kOk);
  EXPECT_EQ(third.changed, BackingEpoch{2});
  EXPECT_EQ(read("f", 3), "2");
  loop.advance(3s);
  play("backing.emptied", 4, [&] { return files->attach({.owner = owner(4), .empty = true}); });
  EXPECT_EQ(attach({.owner = owner(4)}).changed, BackingEpoch{0});
  EXPECT_TRUE(listed(4).empty());
}

}  // namespace
}  // namespace slice::storagenode
