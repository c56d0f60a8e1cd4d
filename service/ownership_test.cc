#include "service/ownership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/testing/service_fixture.h"

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

}  // namespace
}  // namespace slice::service
