#include "coordinator/ops/remove.h"

#include "coordinator/testing/coordinator_fixture.h"

namespace slice::coordinator {

using NfsStatus = nfs3::Status;

namespace {

using namespace std::chrono_literals;

class RemoveTest : public testing::CoordinatorFixture {
 protected:
  std::size_t removed_count(FileId file = FileId{77}) {
    std::size_t n = 0;
    for (auto* each : participants()) n += each->removed.count(file);
    return n;
  }
};

TEST_F(RemoveTest, IsAnsweredWhenItIsOwedAndDoneSoonAfter) {
  for (auto* each : participants()) each->delay = 1s;
  std::uint64_t syncs = disk_.syncs();
  MonoTime start = loop_.now();
  EXPECT_EQ(run(remove_call(file()))->status, NfsStatus::kOk);
  EXPECT_LT(loop_.now() - start, 1s);
  EXPECT_EQ(disk_.syncs() - syncs, 1u);
  EXPECT_EQ(removed_count(), 0u);
  loop_.advance(2s);
  EXPECT_EQ(removed_count(), 3u);
  EXPECT_EQ(network_.delivered(), 4u);
}

TEST_F(RemoveTest, AskedAgainItDoesNothingMore) {
  silence("store1");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(remove_call(file()))->status, NfsStatus::kOk);
  EXPECT_EQ(process().metric("coordinator_log_records_total"), 1u);
  serve("store1", store1_);
  loop_.advance(10s);
  EXPECT_EQ(removed_count(), 3u);
  EXPECT_EQ(run(remove_call(file()))->status, NfsStatus::kOk);  // there is nothing left, and that is no error
  loop_.advance(3s);
  EXPECT_EQ(process().metric("coordinator_removes_owed"), 0u);
}

TEST_F(RemoveTest, DuplicatesThatOverlapShareOneIntention) {
  disk_.set_delay(100ms, 100ms);
  int done = 0;
  for (int i = 0; i < 4; ++i) {
    start(remove_call(file()), [&](auto result) { done += result->status == NfsStatus::kOk; });
  }
  loop_.advance(50ms);
  EXPECT_EQ(done, 0);
  loop_.advance(1s);
  EXPECT_EQ(done, 4);
  EXPECT_EQ(store1_.removes, 1);
}

TEST_F(RemoveTest, AFullLogDiskOwesNothing) {
  disk_.set_capacity(0);
  EXPECT_EQ(run(remove_call(file()))->status, NfsStatus::kNoSpc);
  loop_.advance(5s);
  EXPECT_EQ(removed_count(), 0u);
  disk_.set_capacity(1 << 30);
  EXPECT_EQ(run(remove_call(file()))->status, NfsStatus::kOk);
  loop_.advance(5s);
  EXPECT_EQ(removed_count(), 3u);
}

TEST_F(RemoveTest, ManyAreRemovedSomeAtATimeAndOutliveAParticipantsAbsence) {
  for (auto* each : participants()) each->delay = 10ms;
  silence("store2");
  std::size_t answered = 0;
  for (std::uint64_t id = 1; id <= 500; ++id) {
    start(remove_call(file(id)), [&](auto result) { answered += result->status == NfsStatus::kOk; });
  }
  loop_.advance(3s);
  EXPECT_EQ(answered, 500u);
  EXPECT_LE(store1_.most_under_way, RemoveOperation::kAtOnce);
  EXPECT_LE(store1_.removed.size(), RemoveOperation::kAtOnce);
  EXPECT_EQ(process().metric("coordinator_removes_owed"), 500u);
  loop_.advance(60s);
  EXPECT_EQ(store1_.removed.size(), 500u) << "who is there gives space back meanwhile";
  EXPECT_EQ(process().metric("coordinator_removes_owed"), 500u);
  kill();
  loop_.advance(10s);
  boot();
  serve("store2", store2_);
  loop_.advance(20s);
  for (auto* each : participants()) EXPECT_EQ(each->removed.size(), 500u);
  EXPECT_EQ(process().metric("coordinator_open_intentions"), 0u);
  // All is cleared: the next start owes nothing.
  loop_.advance(2s);
  int removes = store1_.removes;
  kill();
  boot();
  EXPECT_EQ(process().metric("coordinator_open_intentions"), 0u);
  loop_.advance(2s);
  EXPECT_EQ(store1_.removes, removes);
}

TEST_F(RemoveTest, ACrashAtAnyPointNeverForgetsWhatWasAnswered) {
  struct Point {
    const char* name;
    int n;
    bool owed;
  };
  std::uint64_t id = 1000;
  for (Point point : {Point{"remove.begun", 1, false},
                      {"remove.durable", 1, true},
                      {"remove.part", 1, true},
                      {"remove.part", 2, true},
                      {"remove.part", 3, true},
                      {"remove.parts", 1, true},
                      {"intentions.cleared", 1, true}}) {
    SCOPED_TRACE(fmt::format("{} {}", point.name, point.n));
    ++id;
    kill_at(point.name, point.n);
    int before = kills_;
    start(remove_call(file(id)), [](auto) {});
    loop_.advance(10s);
    ASSERT_EQ(kills_, before + 1);
    boot();
    loop_.advance(2s);
    EXPECT_EQ(removed_count(FileId{id}), point.owed ? 3u : 0u);
    EXPECT_EQ(run(remove_call(file(id)))->status,
              NfsStatus::kOk);  // the directory server's reclaim queue goes on
    loop_.advance(3s);
    EXPECT_EQ(removed_count(FileId{id}), 3u);
    EXPECT_EQ(process().metric("coordinator_open_intentions"), 0u);
  }
}

}  // namespace
}  // namespace slice::coordinator
