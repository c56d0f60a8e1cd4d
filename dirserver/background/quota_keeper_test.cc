#include "dirserver/background/quota_keeper.h"

#include <gmock/gmock.h>

#include "dirserver/testing/fixture.h"
#include "service/internal_program.h"
#include "wire/manager.h"

namespace slice::dirserver::testing {
namespace {

using namespace std::chrono_literals;

constexpr Credential kAnn{1001, 50, {}}, kBob{1002, 50, {}}, kRoot{};
constexpr QuotaId kAnns{QuotaKind::kUser, 1001}, kBobs{QuotaKind::kUser, 1002}, kStaff{QuotaKind::kGroup, 50};

// What other directory servers have is what the test says.
class FakeManager : public service::InternalProgram {
 public:
  FakeManager() : InternalProgram(wire::kManagerProgram) {
    on<wire::QuotaReportArgs>(wire::ManagerProcedure::kQuotaReport, [this](const auto& args) {
      ++reports;
      wire::QuotaReportResult result{.again = args.same && told.empty(), .sums = {}};
      if (args.counted && !args.same) told = args.figures;
      if (!knows) return result;
      result.version = ++version;
      std::map<QuotaId, wire::QuotaFigure> sums;
      for (const auto* figures : {&told, &others}) {
        for (const wire::QuotaFigure& each : *figures) {
          wire::QuotaFigure& sum = sums[each.whose];
          sum.whose = each.whose;
          sum.usage.space += each.usage.space;
          sum.usage.files += each.usage.files;
          sum.promised += each.promised;
        }
      }
      for (const auto& [whose, sum] : sums) result.sums.push_back(sum);
      return result;
    });
  }
  std::vector<wire::QuotaFigure> told, others;
  bool knows = true;
  std::uint64_t version = 100;
  unsigned reports = 0;
};

class QuotaKeeperTest : public DirectoryFixture {
 protected:
  QuotaKeeperTest() {
    serve("manager1", manager_);
    nfs3::SetAttributes open;
    open.mode = 0777;
    EXPECT_EQ(setattr(root(), open), NfsStatus::kOk);
  }
  void set(QuotaId whose, const Quota& quota) {
    Settings next = *settings_.get();
    ++next.generation.value;
    next.quotas[whose] = quota;
    settings_.set(std::move(next));
    follow_settings();
    loop_.advance(1s);
  }
  wire::RoomResult room(std::uint32_t server, std::uint64_t held, std::uint64_t needed) {
    return run(service::internal_call<wire::RoomResult>(
                   network_, endpoint("dir1"), wire::kAuthorityProgram, wire::AuthorityProcedure::kRoom,
                   wire::RoomArgs{
                       .server = server, .owners = {1001, 50, {}}, .held = held, .needed = needed}))
        .value();
  }
  NfsStatus make(const std::string& name, Credential who = kAnn) {
    return create(root(), name, std::move(who)).status;
  }
  FakeManager manager_;
};

TEST_F(QuotaKeeperTest, NewObjectsAreRefusedBeyondAHardLimit) {
  ASSERT_EQ(make("before"), NfsStatus::kOk);
  set(kAnns, {.space = {}, .files = {0, 4, 0}});
  EXPECT_EQ(make("a"), NfsStatus::kOk);
  EXPECT_EQ(mkdir(root(), "b", kAnn).status, NfsStatus::kOk);
  EXPECT_EQ(symlink(root(), "c", "d", kAnn).status, NfsStatus::kOk);
  EXPECT_EQ(make("e"), NfsStatus::kDquot);
  EXPECT_EQ(mkdir(root(), "e", kAnn).status, NfsStatus::kDquot);
  EXPECT_EQ(symlink(root(), "e", "d", kAnn).status, NfsStatus::kDquot);
  EXPECT_EQ(mknod(root(), "e", nfs3::FileType::kFifo, kAnn).status, NfsStatus::kDquot);
  EXPECT_EQ(make("e", kBob), NfsStatus::kOk) << "another's";
  EXPECT_EQ(link(lookup(root(), "a").handle, root(), "link", kAnn), NfsStatus::kOk) << "no new object";
  EXPECT_EQ(remove(root(), "link", kAnn), NfsStatus::kOk);
  EXPECT_EQ(remove(root(), "a", kAnn), NfsStatus::kOk);
  EXPECT_EQ(make("f"), NfsStatus::kOk) << "there is room again";
  restart();
  loop_.advance(1s);
  EXPECT_EQ(make("g"), NfsStatus::kDquot) << "what there is was counted anew";
}

TEST_F(QuotaKeeperTest, ADirectoryTakesSpace) {
  set(kStaff, {.space = {0, 8192, 0}, .files = {}});
  EXPECT_EQ(mkdir(root(), "a", kAnn).status, NfsStatus::kOk);
  EXPECT_EQ(mkdir(root(), "b", kBob).status, NfsStatus::kOk);
  EXPECT_EQ(mkdir(root(), "c", kBob).status, NfsStatus::kDquot);
  EXPECT_EQ(make("file", kBob), NfsStatus::kOk) << "it takes none yet";
}

TEST_F(QuotaKeeperTest, WhoGetsAnObjectHasRoomForIt) {
  const Handle file = create(root(), "f", kAnn).handle;
  merge(std::vector<wire::FileMerge>{{.handle = file, .size = 9000, .stored = 12288}}, 1);
  set(kStaff, {.space = {0, 16384, 0}, .files = {}});
  set({QuotaKind::kGroup, 60}, {.space = {0, 8192, 0}, .files = {}});
  nfs3::SetAttributes chgrp;
  chgrp.gid = 60;
  EXPECT_EQ(setattr(file, chgrp, {1001, 50, {60}}), NfsStatus::kDquot);
  EXPECT_EQ(setattr(file, chgrp, kRoot), NfsStatus::kOk) << "the superuser may";
  chgrp.gid = 50;
  EXPECT_EQ(setattr(file, chgrp, kAnn), NfsStatus::kOk);
  EXPECT_EQ(setattr(file, chgrp, kAnn), NfsStatus::kOk) << "it is there already";
}

TEST_F(QuotaKeeperTest, ASoftLimitCountsBehindItsGrace) {
  const auto now = static_cast<std::uint64_t>(loop_.wall().ns / 1'000'000'000);
  set(kAnns, {.space = {}, .files = {1, 0, 0}, .grace = 10});
  EXPECT_EQ(make("a"), NfsStatus::kOk);
  EXPECT_EQ(make("b"), NfsStatus::kOk);
  set(kAnns, {.space = {}, .files = {1, 0, now}, .grace = 10});
  EXPECT_EQ(make("c"), NfsStatus::kOk);
  loop_.advance(11s);
  EXPECT_EQ(make("d"), NfsStatus::kDquot);
}

TEST_F(QuotaKeeperTest, WhatOtherServersHaveCounts) {
  set(kAnns, {.space = {}, .files = {0, 5, 0}});
  manager_.others = {{kAnns, {0, 3}, 0}};
  loop_.advance(1s);
  EXPECT_EQ(make("a"), NfsStatus::kOk);
  EXPECT_EQ(make("b"), NfsStatus::kOk);
  EXPECT_EQ(make("c"), NfsStatus::kDquot);
  loop_.advance(1s);
  EXPECT_EQ(manager_.told, (std::vector<wire::QuotaFigure>{{kAnns, {0, 2}, 0}}));
  EXPECT_EQ(make("c"), NfsStatus::kDquot);
  manager_.others.clear();
  loop_.advance(1s);
  EXPECT_EQ(make("c"), NfsStatus::kOk);
  silence("manager1");
  loop_.advance(5s);
  EXPECT_EQ(make("d"), NfsStatus::kOk) << "what it knew goes on to count";
  EXPECT_EQ(make("e"), NfsStatus::kOk);
  EXPECT_EQ(make("f"), NfsStatus::kDquot);
}

TEST_F(QuotaKeeperTest, DataServersArePromisedWhatIsLeftAndNoMore) {
  set(kAnns, {.space = {0, 1 << 20, 0}, .files = {}});
  const std::uint64_t whole = 1 << 20;
  const auto first = room(5, 0, 65536);
  EXPECT_GE(first.promised, 65536u);
  EXPECT_LT(first.promised, whole / 2 + 65536) << "the others get some as well";
  const auto second = room(6, 0, whole - first.promised);
  EXPECT_EQ(second.promised, whole - first.promised) << "what is left";
  const auto third = room(7, 0, 4096);
  EXPECT_EQ(third.promised, 0u);
  EXPECT_TRUE(third.others) << "but for what was promised there would be some";
  // The first took in half, and needs no more; the rest is there for others.
  room(5, 4096, 0);
  loop_.advance(std::chrono::milliseconds(wire::kPromisedMs));
  EXPECT_EQ(room(7, 0, whole).promised, whole) << "promises end";
}

TEST_F(QuotaKeeperTest, WhatIsHeldCountsAndOverTheLimitThereIsNone) {
  set(kStaff, {.space = {0, 100'000, 0}, .files = {}});
  EXPECT_EQ(room(5, 99'000, 4096).promised, 0u);
  EXPECT_FALSE(room(5, 99'000, 4096).others);
  EXPECT_GE(room(5, 0, 4096).promised, 4096u);
  const Handle file = create(root(), "f", kBob).handle;
  merge(std::vector<wire::FileMerge>{{.handle = file, .size = 98304, .stored = 98304}}, 1);
  EXPECT_EQ(room(5, 0, 4096).promised, 0u);
  EXPECT_FALSE(room(5, 0, 4096).others);
  loop_.advance(std::chrono::milliseconds(wire::kPromisedMs));
  EXPECT_EQ(truncate(file, 0, kBob), NfsStatus::kOk);
  EXPECT_GE(room(5, 0, 4096).promised, 4096u);
}

TEST_F(QuotaKeeperTest, WithoutQuotasNobodyAsksTheManager) {
  loop_.advance(5s);
  EXPECT_EQ(manager_.reports, 0u);
  set(kAnns, {.space = {}, .files = {0, 4, 0}});
  EXPECT_GT(manager_.reports, 0u);
  Settings none = *settings_.get();
  none.quotas.clear();
  settings_.set(std::move(none));
  follow_settings();
  loop_.advance(1s);
  const unsigned reports = manager_.reports;
  loop_.advance(5s);
  EXPECT_EQ(manager_.reports, reports);
}

}  // namespace
}  // namespace slice::dirserver::testing
