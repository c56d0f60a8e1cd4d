// The owner of a backing set (service/backing/) over real nodes on disks that forget what was not synced:
// nothing acknowledged is lost when nodes, owners and both go, and two owners never answer at once.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "service/backing/backed_disk.h"
#include "service/backing/fenced_program.h"
#include "storage/log.h"
#include "storagenode/testing/owner_fixture.h"

namespace slice::storagenode {
namespace {

using namespace std::chrono_literals;

TEST_F(OwnerTest, WhatIsSyncedIsThereForTheNextOwnerElsewhere) {
  Owner& first = begin(here_);
  ASSERT_TRUE(write(first, "log/1", "synced"));
  ASSERT_TRUE(write(first, "state", "one"));
  auto file = run(first.disk->open("log/1", storage::Disk::Mode::kMustExist)).value();
  ASSERT_TRUE(run(file->truncate(3)));
  ASSERT_TRUE(run(file->sync()));
  ASSERT_TRUE(run(first.disk->rename("state", "state2")));
  ASSERT_TRUE(run(first.disk->sync_folder("")));
  EXPECT_EQ(read(first, "log/1"), "syn");
  EXPECT_EQ(run(first.disk->list("")).value(), (std::vector<std::string>{"log", "state2"}));
  EXPECT_EQ(run(first.disk->list("log")).value(), (std::vector<std::string>{"1"}));
  kill(first);
  const MonoTime killed = loop_.now();
  Owner& second = begin(elsewhere_);
  EXPECT_GE(loop_.now() - killed, 2s) << "the first one's session had to end";
  EXPECT_LE(loop_.now() - killed, 4s);
  EXPECT_EQ(read(second, "log/1"), "syn");
  EXPECT_EQ(read(second, "state2"), "one");
  EXPECT_EQ(read(second, "state"), "no file");
  EXPECT_EQ(manager_.set.epoch.value, 2u);
  EXPECT_EQ(members().size(), 2u);
}

// All in one round, so that one CHANGE may have it.
Task<Status> write_small_and_large(service::BackedDisk& disk) {
  const std::string little(3000, 's'), much(3 * wire::kBackingPiece + 17, 'l');
  auto small = co_await disk.open("small", storage::Disk::Mode::kCreate);
  auto large = co_await disk.open("large", storage::Disk::Mode::kCreate);
  for (std::size_t i = 0; i < 20; ++i)
    SLICE_CO_RETURN_IF_ERROR(co_await (*small)->write(i * little.size(), as_bytes(little)));
  SLICE_CO_RETURN_IF_ERROR(co_await (*large)->write(0, as_bytes(much)));
  SLICE_CO_RETURN_IF_ERROR(co_await (*small)->write(0, as_bytes(little)));
  SLICE_CO_RETURN_IF_ERROR(co_await (*large)->sync());
  co_return co_await (*small)->sync();
}

TEST_F(OwnerTest, NoCallIsLongerThanNodesTake) {
  Owner& owner = begin(here_);
  const MonoTime at = loop_.now();
  ASSERT_TRUE(run(write_small_and_large(*owner.disk)));
  EXPECT_LT(loop_.now() - at, 1s) << "nothing was sent again";
  EXPECT_EQ(members().size(), 2u);
  EXPECT_EQ(read(owner, "large"), std::string(3 * wire::kBackingPiece + 17, 'l'));
}

TEST_F(OwnerTest, TheNextRunOnTheSameHostAndOneAfterACleanStopNeedNotWait) {
  Owner& first = begin(here_);
  ASSERT_TRUE(write(first, "a", "x"));
  kill(first);
  MonoTime at = loop_.now();
  Owner& second = begin(here_);
  EXPECT_LT(loop_.now() - at, 500ms) << "it holds the data directory of the run before";
  bool ended = false;
  start_void(second.set->close(), [&ended] { ended = true; });
  ASSERT_TRUE(loop_.run_until([&] { return ended; }));
  EXPECT_FALSE(second.set->holds());
  at = loop_.now();
  Owner& third = begin(elsewhere_);
  EXPECT_LT(loop_.now() - at, 500ms) << "it was given back";
  EXPECT_EQ(read(third, "a"), "x");
  EXPECT_EQ(members().size(), 2u) << "nobody had to be filled";
}

TEST_F(OwnerTest, AnOwnerThatIsCutOffAnswersNobodyOnceAnotherMay) {
  Owner& first = begin(here_);
  ASSERT_TRUE(write(first, "a", "x"));
  EXPECT_TRUE(first.set->holds());
  first.channel->cut = true;
  Owner& second = make_owner(elsewhere_);
  std::optional<Status> opened;
  start(second.set->open(), [&](Status status) { opened = status; });
  bool both = false;
  for (int i = 0; i < 500; ++i) {
    loop_.advance(10ms);
    both = both || (first.set->holds() && second.set->holds());
  }
  ASSERT_TRUE(opened && *opened);
  EXPECT_TRUE(second.set->holds());
  EXPECT_FALSE(first.set->holds());
  EXPECT_FALSE(both);
  EXPECT_EQ(first.lost, "");
  first.channel->cut = false;
  loop_.advance(1s);
  EXPECT_FALSE(first.set->holds());
  EXPECT_NE(first.lost, "") << "it finds out that it is the owner no more";
  EXPECT_FALSE(write(first, "a", "late"));
  EXPECT_EQ(read(second, "a"), "x");
}

// It reaches its nodes, and hears nothing of the manager.
TEST_F(OwnerTest, AnOwnerThatDoesNotHearOfTheNextOneIsToldByTheNodes) {
  Owner& first = begin(here_);
  ASSERT_TRUE(write(first, "a", "x"));
  Owner& second = make_owner(elsewhere_);
  std::optional<Status> opened;
  start(second.set->open(), [&](Status status) { opened = status; });
  bool both = false;
  for (int i = 0; i < 800 && !opened; ++i) {
    loop_.advance(10ms);
    both = both || (first.set->holds() && second.set->holds());
    EXPECT_TRUE(i > 250 || first.set->holds()) << "one that lets go by itself has its time";
  }
  ASSERT_TRUE(opened && *opened);
  EXPECT_FALSE(both);
  EXPECT_NE(first.lost, "");
  EXPECT_FALSE(write(first, "a", "late"));
  EXPECT_EQ(read(second, "a"), "x");
}

TEST_F(OwnerTest, ANodeThatIsGoneIsTakenOutBeforeTheNextAnswerAndFilledWhenItIsBack) {
  Owner& owner = begin(here_);
  ASSERT_TRUE(write(owner, "a", "before"));
  host(0).end();
  const MonoTime at = loop_.now();
  ASSERT_TRUE(write(owner, "a", "during"));
  EXPECT_LT(loop_.now() - at, 4s);
  EXPECT_EQ(members(), (std::vector<std::uint32_t>{number(1)}));
  EXPECT_TRUE(owner.set->holds());
  host(0).start();
  loop_.advance(5s);
  ASSERT_EQ(members().size(), 2u);
  // The other one goes for ever, and the server with it.
  host(1).end();
  kill(owner);
  manager_.set.members = {number(0)};
  Owner& next = begin(elsewhere_);
  EXPECT_EQ(read(next, "a"), "during");
}

TEST_F(OwnerTest, ANodeThatIsStoppedIsWaitedForByNobody) {
  Owner& owner = begin(here_);
  ASSERT_TRUE(write(owner, "a", "before"));
  MonoTime at = loop_.now();
  EXPECT_LT(host(0).leave(), BackingFiles::kLeavePatience) << "also where the owner has nothing to write";
  host(0).end();
  ASSERT_TRUE(write(owner, "a", "during"));
  EXPECT_LT(loop_.now() - at, BackingFiles::kLeavePatience);
  EXPECT_EQ(members(), (std::vector<std::uint32_t>{number(1)}));
  // The last one has nobody to leave to: it is used until its end.
  at = loop_.now();
  EXPECT_LT(host(1).leave(), BackingFiles::kLeavePatience);
  ASSERT_TRUE(write(owner, "a", "until the end"));
  EXPECT_LT(loop_.now() - at, 1s);
  EXPECT_EQ(members(), (std::vector<std::uint32_t>{number(1)}));
  host(1).end();
  host(1).start();
  kill(owner);
  EXPECT_EQ(read(begin(elsewhere_), "a"), "until the end");
}

TEST_F(OwnerTest, AnotherNodeIsFilledInPlaceOfOneThatStaysAway) {
  Owner& owner = begin(here_);
  std::string big(3 << 20, 'b');
  for (std::size_t i = 0; i < big.size(); i += 1000) big[i] = static_cast<char>('a' + i / 1000 % 26);
  ASSERT_TRUE(write(owner, "zones/1", big));
  ASSERT_TRUE(write(owner, "log/1", "x"));
  host(0).end();
  manager_.silent = {number(0)};
  // It is written to all the time.
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(write(owner, "zones/1", fmt::format("{:08d}", i), static_cast<std::uint64_t>(i) * 4096));
    big.replace(static_cast<std::size_t>(i) * 4096, 8, fmt::format("{:08d}", i));
    loop_.advance(500ms);
  }
  ASSERT_EQ(members().size(), 2u);
  EXPECT_EQ(std::count(members().begin(), members().end(), number(2)), 1);
  host(1).end();
  kill(owner);
  manager_.set.members = {number(2)};
  Owner& next = begin(elsewhere_);
  EXPECT_EQ(read(next, "log/1"), "x");
  EXPECT_TRUE(read(next, "zones/1") == big);
}

// What a manager that knows nothing any more goes by.
TEST_F(OwnerTest, TheSetItselfSaysWhoItsMembersAre) {
  Owner& owner = begin(here_);
  ASSERT_TRUE(write(owner, "a", "x"));
  EXPECT_EQ(members_on(0), members());
  EXPECT_EQ(run(owner.disk->list("")).value(), std::vector<std::string>{"a"}) << "it is not the server's";
  host(0).end();
  ASSERT_TRUE(write(owner, "a", "y"));
  EXPECT_EQ(members_on(1), std::vector<std::uint32_t>{number(1)}) << "before anything is over without it";
  host(0).start();
  EXPECT_EQ(members_on(0).size(), 2u) << "it has been away";
  loop_.advance(5s);
  ASSERT_EQ(members().size(), 2u);
  EXPECT_EQ(members_on(0), members());
  EXPECT_EQ(members_on(1), members());
  loop_.advance(5s);
  ASSERT_TRUE(manager_.kept);
  EXPECT_EQ(*manager_.kept, manager_.set);
  // It says nothing while it may not be the owner any more.
  owner.channel->cut = true;
  loop_.advance(5s);
  owner.channel->cut = false;
  manager_.kept.reset();
  begin(elsewhere_);
  ASSERT_TRUE(loop_.run_until([&] { return manager_.kept.has_value(); }, 10s));
  EXPECT_EQ(manager_.kept->epoch, BackingEpoch{2});
}

// A call over TCP is made once: without an answer its client waits for its own patience, a minute.
// Like the server's own.
class Question : public rpc::Program {
 public:
  explicit Question(Loop& loop) : loop_(loop) {}
  std::uint32_t number() const override { return 1; }
  std::uint32_t version() const override { return 1; }
  Task<rpc::Outcome> handle(const rpc::Call& /*call*/, rpc::XdrWriter& /*results*/) override {
    co_await loop_.sleep(takes);
    co_return rpc::Outcome::kReply;
  }
  Duration takes{};

 private:
  Loop& loop_;
};

TEST_F(OwnerTest, CallsWaitWhileItIsNotSureAndAreAnsweredThen) {
  Owner& owner = begin(here_);
  Question question(loop_);
  Metrics metrics;
  service::FencedProgram fenced(question, *owner.set, metrics);
  rpc::Call call;
  rpc::XdrWriter results;
  std::vector<rpc::Outcome> outcomes;
  const auto ask = [&] {
    start(fenced.handle(call, results), [&](rpc::Outcome outcome) { outcomes.push_back(outcome); });
  };
  ask();
  loop_.advance(1ms);
  EXPECT_EQ(outcomes.size(), 1u);
  // One that is under way while a member is lost, and one that comes then.
  silence("manager1");
  host(0).end();
  loop_.advance(1s);
  question.takes = 5s;
  ask();
  loop_.advance(10s);
  ASSERT_FALSE(owner.set->holds());
  question.takes = {};
  ask();
  EXPECT_EQ(outcomes.size(), 1u);
  serve("manager1", manager_);
  loop_.advance(5s);
  EXPECT_EQ(outcomes, std::vector(3, rpc::Outcome::kReply));
  // Another becomes the owner meanwhile.
  owner.channel->cut = true;
  loop_.advance(10s);
  ASSERT_FALSE(owner.set->holds());
  ask();
  EXPECT_EQ(outcomes.size(), 3u);
  begin(elsewhere_);
  owner.channel->cut = false;
  loop_.advance(5s);
  ASSERT_EQ(outcomes.size(), 4u);
  EXPECT_EQ(outcomes.back(), rpc::Outcome::kDrop);
}

TEST_F(OwnerTest, ADrainedMemberGoesWhenAnotherHasAll) {
  Owner& owner = begin(here_);
  ASSERT_TRUE(write(owner, "a", "x"));
  drained_ = {number(0)};
  loop_.advance(10s);
  EXPECT_EQ(members(), (std::vector<std::uint32_t>{number(1), number(2)}));
  EXPECT_EQ(manager_.least, 2u) << "and not before";
  EXPECT_TRUE(owner.set->holds());
  kill(owner);
  EXPECT_EQ(read(begin(elsewhere_), "a"), "x");
}

TEST_F(OwnerTest, TheLastMemberIsWaitedForAndWhatItForgotIsNotTakenForWritten) {
  Owner& owner = begin(here_);
  ASSERT_TRUE(write(owner, "a", "synced"));
  host(0).end();
  ASSERT_TRUE(write(owner, "a", "second"));
  ASSERT_EQ(members().size(), 1u);
  auto file = run(owner.disk->open("a", storage::Disk::Mode::kMustExist)).value();
  ASSERT_TRUE(run(file->write(0, as_bytes("unsync"))));
  loop_.advance(100ms);
  host(1).restart();
  EXPECT_FALSE(run(file->sync()));
  loop_.advance(10ms);
  EXPECT_NE(owner.lost, "");
  EXPECT_FALSE(owner.set->holds());
  kill(owner);
  Owner& next = begin(here_);
  EXPECT_EQ(read(next, "a"), "second");
}

TEST_F(OwnerTest, WithoutAManagerAllGoesOnUntilANodeIsLost) {
  Owner& owner = begin(here_);
  silence("manager1");
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(write(owner, "a", "x"));
    loop_.advance(1s);
  }
  host(0).end();
  std::optional<Status> written;
  auto file = run(owner.disk->open("a", storage::Disk::Mode::kMustExist)).value();
  ASSERT_TRUE(run(file->write(0, as_bytes("y"))));
  start(file->sync(), [&](Status status) { written = status; });
  loop_.advance(20s);
  EXPECT_FALSE(written) << "the next owner would take that node for a whole one";
  EXPECT_FALSE(owner.set->holds());
  serve("manager1", manager_);
  loop_.advance(5s);
  ASSERT_TRUE(written && *written);
  EXPECT_TRUE(owner.set->holds());
}

// It has lost its state, and the first that it hears of the set is that another node has all.
TEST_F(OwnerTest, AManagerThatForgotIsToldBeforeMembersChange) {
  Owner& owner = begin(here_);
  ASSERT_TRUE(write(owner, "a", "x"));
  host(0).end();
  ASSERT_TRUE(write(owner, "a", "y"));
  ASSERT_EQ(members().size(), 1u);
  manager_.forgot = true;
  host(0).start();
  loop_.advance(1500ms);
  ASSERT_TRUE(loop_.run_until([&] { return members().size() == 2; }, 5s));
  EXPECT_FALSE(manager_.forgot);
  EXPECT_TRUE(owner.set->intact());
  EXPECT_TRUE(owner.set->holds());
}

// Not sure, since a member was silent for a while: when that one answers again it tells the manager.
TEST_F(OwnerTest, AManagerThatForgotIsToldByOneThatIsSureAgain) {
  Owner& owner = begin(here_);
  ASSERT_TRUE(write(owner, "a", "x"));
  silence("manager1");
  host(0).cut();
  loop_.advance(4s);
  ASSERT_FALSE(owner.set->holds());
  manager_.forgot = true;
  serve("manager1", manager_);
  loop_.advance(1s);
  EXPECT_TRUE(owner.set->intact());
  host(0).join();
  loop_.advance(10s);
  EXPECT_FALSE(manager_.forgot);
  EXPECT_TRUE(owner.set->holds());
  EXPECT_EQ(members().size(), 2u);
  EXPECT_EQ(read(owner, "a"), "x");
}

// One that is not sure may be an old owner: it does not insist, and ends.
TEST_F(OwnerTest, OneThatIsNotSureEndsWhereTheManagerForgot) {
  Owner& owner = begin(here_);
  ASSERT_TRUE(write(owner, "a", "x"));
  manager_.forgot = manager_.never_learns = true;
  host(0).end();
  EXPECT_FALSE(write(owner, "a", "y"));
  EXPECT_FALSE(owner.set->intact());
}

TEST_F(OwnerTest, AFullMemberIsNoSpaceForWritesAndNothingElse) {
  Owner& owner = begin(here_);
  ASSERT_TRUE(write(owner, "a", "x"));
  host(0).disk.set_capacity(host(0).disk.used_bytes() + (1 << 20));
  ASSERT_TRUE(write(owner, "b", "y"));  // its answer tells how much is free
  Status full = write(owner, "a", std::string(2 << 20, 'z'));
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Errc::kNoSpace);
  EXPECT_EQ(read(owner, "a"), "x");
  host(0).disk.set_capacity(1 << 30);
  loop_.advance(1s);
  ASSERT_TRUE(run(owner.disk->sync_folder("")));
  EXPECT_TRUE(write(owner, "a", std::string(2 << 20, 'z')));
}

// A log on the set, through everything that may happen to it: what it said to be durable is there.
TEST_F(OwnerTest, ALogLosesNothingAcknowledgedWhateverGoes) {
  std::mt19937 random(7);
  std::uint64_t acknowledged = 0, appended = 0;
  MemoryDisk* local = &here_;
  for (int round = 0; round < 40; ++round) {
    Owner& owner = begin(*local);
    std::uint64_t last = 0;
    auto log =
        run(storage::Log::open(loop_, *owner.disk, *owner.metrics, {.folder = "log", .segment_bytes = 4096},
                               [&last](storage::LogSequence sequence, ByteView) -> Status {
                                 last = sequence.value;
                                 return {};
                               }));
    ASSERT_TRUE(log) << log.error().message << " in round " << round;
    ASSERT_GE(last, acknowledged) << "in round " << round;
    ASSERT_LE(last, appended);
    acknowledged = appended = last;
    const unsigned what = random() % 6;
    const std::size_t node = random() % 3;
    const int when = static_cast<int>(random() % 30);
    for (int i = 0; i < 30; ++i) {
      auto sequence = (*log)->append(as_bytes(std::string(100 + random() % 300, 'r')));
      if (!sequence) break;
      appended = sequence->value;
      std::optional<Status> synced;
      start((*log)->sync(*sequence), [&](Status status) { synced = status; });
      if (i == when) {
        loop_.advance(std::chrono::microseconds(random() % 3000));
        if (what == 0) host(node).restart();
        if (what == 1) host(node).end(MemoryDisk::Crash::kSeeded), loop_.advance(1s), host(node).start();
        if (what == 2)
          host(node).cut(), loop_.advance(std::chrono::milliseconds(random() % 6000)), host(node).join();
        if (what == 3) break;  // the owner goes with what was under way
      }
      loop_.run_until([&] { return synced.has_value(); }, 30s);
      if (!synced || !*synced) break;
      acknowledged = sequence->value;
      if (random() % 8 == 0) loop_.advance(2s);
    }
    // The log itself may not go while it has something under way.
    kill(owner);
    loop_.advance(std::chrono::seconds(random() % 5));
    logs_.push_back(std::move(*log));
    if (random() % 2 == 0) local = local == &here_ ? &elsewhere_ : &here_;
  }
  EXPECT_GT(acknowledged, 300u);
}

}  // namespace
}  // namespace slice::storagenode
