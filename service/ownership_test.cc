#include "service/ownership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rpc/xdr.h"
#include "service/testing/service_fixture.h"
#include "storage/durable_file.h"

namespace slice::service {
namespace {

using ::testing::HasSubstr;

class OwnershipTest : public testing::ServiceFixture {
 protected:
  OwnershipTest()
      : testing::ServiceFixture("store1"), tables_in_use_(routing::RoutingTables::initial(config_)) {
    tables_in_use_.generation = Generation{4};
  }
  // As a start finds it on the disk.
  Result<std::unique_ptr<Ownership>> loaded() {
    auto ownership = std::make_unique<Ownership>(loop_, disk_, self_);
    if (Status read = run(ownership->load()); !read) return fail(std::move(read).error());
    return ownership;
  }
  std::uint32_t index(const std::string& name) const { return config_.find(name)->index; }
  std::vector<std::uint32_t>& storage_sites() { return tables_in_use_.sites[2]; }

  wire::Tables tables_in_use_;
};

TEST_F(OwnershipTest, WhatIsGrantedIsKnownAfterAPowerCut) {
  Ownership first(loop_, disk_, self_);
  EXPECT_TRUE(run(first.load()));
  EXPECT_FALSE(first.known());
  EXPECT_EQ(first.digest(), 0u);
  EXPECT_TRUE(first.check(tables_in_use_)) << "nothing contradicts no record";
  ASSERT_TRUE(run(first.grant(tables_in_use_)));
  disk_.crash(storage::MemoryDisk::Crash::kDropUnsynced);
  auto second = loaded();
  ASSERT_TRUE(second);
  ASSERT_TRUE((*second)->known());
  EXPECT_EQ((*second)->sites().size(), 512u);
  EXPECT_EQ((*second)->sites().front(), (wire::OwnedSite{0, Generation{4}}));
  EXPECT_EQ((*second)->digest(), wire::digest(wire::sites_of(tables_in_use_, "store1")));
}

TEST_F(OwnershipTest, TablesThatTakeOrGiveASiteAreRefused) {
  Ownership ownership(loop_, disk_, self_);
  ASSERT_TRUE(run(ownership.grant(tables_in_use_)));
  EXPECT_TRUE(ownership.check(tables_in_use_));
  std::swap(storage_sites()[1], storage_sites()[3]);
  EXPECT_TRUE(ownership.check(tables_in_use_)) << "both are the other node's";
  storage_sites()[0] = index("store2");
  EXPECT_THAT(ownership.check(tables_in_use_).error().message, HasSubstr("site 0 at another server"));
  storage_sites()[0] = index("store1");
  storage_sites()[1] = storage_sites()[3] = index("store1");
  EXPECT_THAT(ownership.check(tables_in_use_).error().message, HasSubstr("site 1 and 1 others here"));
}

TEST_F(OwnershipTest, AServerWithoutSitesHasARecordOfNone) {
  for (std::uint32_t& owner : storage_sites()) owner = index("store2");
  Ownership ownership(loop_, disk_, self_);
  ASSERT_TRUE(run(ownership.grant(tables_in_use_)));
  auto again = loaded();
  ASSERT_TRUE(again);
  EXPECT_TRUE((*again)->known());
  EXPECT_TRUE((*again)->sites().empty());
  EXPECT_NE((*again)->digest(), 0u);
  storage_sites()[7] = index("store1");
  EXPECT_FALSE((*again)->check(tables_in_use_));
}

// The name was removed, and added again.
TEST_F(OwnershipTest, TheRecordOfAnotherNumberIsNotGoneBy) {
  Ownership ownership(loop_, disk_, self_);
  ASSERT_TRUE(run(ownership.grant(tables_in_use_)));
  ServerConfig again = self_;
  again.index = 9;
  Ownership other(loop_, disk_, again);
  Status read = run(other.load());
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Errc::kInvalid);
  EXPECT_THAT(read.error().message, ::testing::HasSubstr("begins with an empty one"));
  EXPECT_FALSE(other.known());
}

TEST_F(OwnershipTest, ADamagedRecordIsNone) {
  Ownership ownership(loop_, disk_, self_);
  ASSERT_TRUE(run(ownership.grant(tables_in_use_)));
  for (std::uint64_t at : {0u, 7u, 11u, 15u, 40u}) {
    ASSERT_TRUE(disk_.corrupt("ownership", at, 1));
    auto damaged = loaded();
    ASSERT_FALSE(damaged) << at;
    EXPECT_EQ(damaged.error().code, Errc::kCorrupt);
    ASSERT_TRUE(disk_.corrupt("ownership", at, 1));
  }
  EXPECT_TRUE(loaded());
}

// Two servers that say what they have of the same sites.
class MoveTest : public OwnershipTest {
 protected:
  MoveTest() {
    other_self_ = *config_.find("store2");
    EXPECT_TRUE(run(from_.grant(tables_in_use_)));
    EXPECT_TRUE(run(to_.grant(tables_in_use_)));
    move_ = {.id = wire::MoveId{77},
             .from = index("store1"),
             .to = index("store2"),
             .begun = Generation{4},
             .sites = {0, 2}};
  }
  // The tables after the move, as the manager publishes them.
  wire::Tables published() {
    wire::Tables tables = tables_in_use_;
    wire::keep_layout_sites(tables);
    tables.generation = Generation{5};
    for (std::uint32_t site : move_.sites) tables.sites[2][site] = move_.to;
    return tables;
  }
  static std::uint32_t owner(const Ownership& of, const wire::Tables& tables, std::uint32_t site) {
    return of.applied_to(tables).sites[2][site];
  }

  ServerConfig other_self_;
  storage::MemoryDisk other_disk_{loop_};
  Ownership from_{loop_, disk_, self_}, to_{loop_, other_disk_, other_self_};
  wire::SiteMove move_;
};

TEST_F(MoveTest, WhatWasGivenAndTakenIsKnownAfterAPowerCut) {
  ASSERT_TRUE(run(to_.offer(move_, 5)));
  EXPECT_FALSE(to_.owns_all(move_.sites)) << "it is offered alone";
  ASSERT_TRUE(run(from_.give(move_)));
  ASSERT_TRUE(run(to_.take(move_.id)));
  disk_.crash(storage::MemoryDisk::Crash::kDropUnsynced);
  other_disk_.crash(storage::MemoryDisk::Crash::kDropUnsynced);
  auto from = loaded();
  ASSERT_TRUE(from);
  EXPECT_TRUE((*from)->has_given(move_));
  EXPECT_FALSE((*from)->given().at(0).freed);
  EXPECT_EQ((*from)->sites().size(), 510u);
  EXPECT_EQ((*from)->layout_sites().size(), 512u) << "files with a layout stay";
  Ownership to(loop_, other_disk_, other_self_);
  ASSERT_TRUE(run(to.load()));
  EXPECT_TRUE(to.owns_all(move_.sites));
  EXPECT_TRUE(to.offered().empty());
  EXPECT_EQ(to.sites().front(), (wire::OwnedSite{0, Generation{5}}));
}

TEST_F(MoveTest, ServersGoByTheMoveBeforeTablesShowIt) {
  ASSERT_TRUE(run(to_.offer(move_, 5)));
  ASSERT_TRUE(run(from_.give(move_)));
  EXPECT_TRUE(from_.check(tables_in_use_));
  EXPECT_EQ(owner(from_, tables_in_use_, 0), move_.to);
  EXPECT_EQ(from_.applied_to(tables_in_use_).layout_sites, storage_sites()) << "files with a layout stay";
  EXPECT_EQ(owner(to_, tables_in_use_, 0), move_.from) << "nobody has told it yet";
  ASSERT_TRUE(run(to_.take(move_.id)));
  EXPECT_TRUE(to_.check(tables_in_use_));
  EXPECT_EQ(owner(to_, tables_in_use_, 0), move_.to);
  EXPECT_TRUE(from_.check(published()) && to_.check(published()));
}

TEST_F(MoveTest, TablesThatShowTheMoveTellTheNewOwner) {
  ASSERT_TRUE(run(to_.offer(move_, 5)));
  wire::Tables old = published();
  old.generation = move_.begun;
  EXPECT_TRUE(to_.taken_by(old).empty()) << "they are of before the move: the site was there once";
  EXPECT_EQ(to_.taken_by(published()), std::vector<wire::MoveId>{move_.id});
  EXPECT_TRUE(to_.taken_by(tables_in_use_).empty());
}

TEST_F(MoveTest, CallersAreToldOfItAsLongAsTheirTablesDoNotShowIt) {
  ASSERT_TRUE(run(from_.give(move_)));
  from_.saw(tables_in_use_);
  EXPECT_EQ(from_.given().at(0).shown, Generation{0});
  from_.saw(published());
  EXPECT_EQ(from_.given().at(0).shown, Generation{5});
}

TEST_F(MoveTest, WhatIsWithdrawnIsNotTaken) {
  ASSERT_TRUE(run(to_.offer(move_, 5)));
  ASSERT_TRUE(run(to_.withdraw(move_.id, 4)));
  EXPECT_EQ(to_.offered_by(move_.id), 5u) << "a late word of an earlier attempt";
  ASSERT_TRUE(run(to_.withdraw(move_.id, 5)));
  EXPECT_EQ(to_.offered_by(move_.id), 0u);
  ASSERT_TRUE(run(to_.take(move_.id)));
  EXPECT_FALSE(to_.owns_all({0}));
}

TEST_F(MoveTest, ASiteComesBack) {
  ASSERT_TRUE(run(to_.offer(move_, 5)));
  ASSERT_TRUE(run(from_.give(move_)));
  ASSERT_TRUE(run(to_.take(move_.id)));
  const wire::SiteMove back{
      .id = wire::MoveId{78}, .from = move_.to, .to = move_.from, .begun = Generation{5}, .sites = {2}};
  ASSERT_TRUE(run(from_.offer(back, 9)));
  ASSERT_TRUE(run(to_.give(back)));
  ASSERT_TRUE(run(from_.take(back.id)));
  EXPECT_TRUE(from_.owns_all({2}));
  EXPECT_FALSE(from_.given().contains(2));
  EXPECT_EQ(owner(from_, published(), 2), move_.from);
  EXPECT_EQ(owner(to_, published(), 2), move_.from);
}

// The tables of a server may be of before the site came, from a third one.
TEST_F(MoveTest, TablesOfBeforeTheMoveDoNotSayWhereTheSiteIs) {
  ASSERT_TRUE(run(from_.give(move_)));
  wire::Tables old = tables_in_use_;
  old.sites[2][0] = 6;
  EXPECT_EQ(owner(from_, old, 0), move_.to);
  old.generation = Generation{5};
  EXPECT_EQ(owner(from_, old, 0), 6u) << "it has gone on since";
}

TEST_F(MoveTest, WhatIsNotHereCannotBeGivenNorWhatIsHereBeOffered) {
  const std::uint64_t version = from_.version();
  wire::SiteMove strange = move_;
  strange.sites = {0, 1};
  EXPECT_FALSE(run(from_.give(strange)));
  EXPECT_TRUE(from_.owns_all({0})) << "nothing of it was done";
  EXPECT_FALSE(run(from_.offer(move_, 5)));
  EXPECT_EQ(from_.version(), version);
}

TEST_F(MoveTest, FilesWithALayoutAreNotTakenAway) {
  wire::Tables tables = tables_in_use_;
  wire::keep_layout_sites(tables);
  tables.layout_sites[4] = move_.to;
  EXPECT_THAT(from_.check(tables).error().message, HasSubstr("files with a layout"));
}

// As a server wrote it before sites could be moved.
TEST_F(MoveTest, ARecordOfTheFirstFormatIsRead) {
  rpc::XdrWriter out;
  out.u32(0x534c4f57);
  out.u32(1);
  encode(out, std::vector<wire::OwnedSite>{{3, Generation{1}}, {9, Generation{2}}});
  ASSERT_TRUE(run(storage::replace_file(disk_, "ownership", out.take())));
  auto old = loaded();
  ASSERT_TRUE(old);
  EXPECT_EQ((*old)->sites().size(), 2u);
  EXPECT_EQ((*old)->layout_sites(), (std::vector<std::uint32_t>{3, 9}));
  // From then on it is this server's alone.
  ASSERT_TRUE(run((*old)->keep_number()));
  ServerConfig again = self_;
  again.index = 9;
  Ownership other(loop_, disk_, again);
  EXPECT_FALSE(run(other.load()));
}

}  // namespace
}  // namespace slice::service
