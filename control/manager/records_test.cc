#include "control/manager/records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "routing/tables.h"
#include "service/testing/sample_config.h"

namespace slice::manager {
namespace {

using ::testing::HasSubstr;

class RecordsTest : public ::testing::Test {
 protected:
  RecordsTest() { tables_.generation = Generation{3}; }
  std::uint32_t index(const std::string& name) const { return config_.find(name)->index; }
  // The server claims these sites.
  Status claim(const std::string& name, const std::vector<std::uint32_t>& sites) {
    wire::ClaimArgs args{.server = index(name), .has_record = true, .sites = {}};
    for (std::uint32_t site : sites) args.sites.push_back({site, Generation{1}});
    if (config_.find(name)->role == ServerRole::kStorage) args.layout_sites = sites;
    return records_.claimed(args);
  }
  // As the tables have it.
  void claim_all_but(const std::string& silent) {
    for (const ServerConfig& server : config_.servers) {
      if (server.name != silent && static_cast<std::size_t>(server.role) < wire::kSiteClasses)
        ASSERT_TRUE(claim(server.name, wire::sites_of(tables_, server.name)));
    }
  }

  EnsembleConfig config_ = service::testing::sample_config();
  wire::Tables tables_ = routing::RoutingTables::initial(config_);
  Records records_{config_, tables_.servers};
};

TEST_F(RecordsTest, ASiteIsWhereItsRecordIs) {
  ASSERT_TRUE(claim("store1", {0, 1, 2}));
  auto applied = records_.applied_to(tables_);
  ASSERT_TRUE(applied);
  EXPECT_EQ(applied->generation, Generation{4});
  EXPECT_EQ(applied->sites[2][1], index("store1"));
  EXPECT_EQ(applied->sites[2][3], index("store2")) << "of which nobody has a record";
  EXPECT_EQ(records_.applied_to(*applied)->generation, Generation{4}) << "nothing to change";
  EXPECT_THAT(records_.missing(*applied),
              HasSubstr("store1 has no record of 510 of its sites, the first is 4"));
}

TEST_F(RecordsTest, TwoRecordsOfOneSiteAreNotChosenBetween) {
  ASSERT_TRUE(claim("store1", {0, 1}));
  ASSERT_TRUE(claim("store2", {1, 3}));
  EXPECT_THAT(records_.applied_to(tables_).error().message,
              HasSubstr("both store1 and store2 have a record of storage site 1"));
  ASSERT_TRUE(claim("store1", {0}));
  EXPECT_TRUE(records_.applied_to(tables_)) << "the one that counts is a server's last";
}

TEST_F(RecordsTest, KnowsWhatIsClaimedByNobody) {
  EXPECT_EQ(records_.unclaimed(),
            "64 directory sites, 64 small-file sites, 1024 storage sites, 64 coordinator sites");
  claim_all_but("store2");
  EXPECT_EQ(records_.unclaimed(), "512 storage sites");
  claim_all_but("");
  EXPECT_EQ(records_.unclaimed(), "");
  EXPECT_EQ(records_.missing(tables_), "");
}

TEST_F(RecordsTest, AsksForRecordsThatItHasHeardOfAndForThoseThatChanged) {
  EXPECT_FALSE(records_.any());
  records_.heard(index("store1"), 0);
  EXPECT_FALSE(records_.any());
  records_.heard(index("store1"), wire::digest(std::vector<std::uint32_t>{4}));
  EXPECT_TRUE(records_.any());
  EXPECT_TRUE(records_.wants(index("store1")));
  EXPECT_EQ(records_.wanted(), "store1");
  ASSERT_TRUE(claim("store1", {4}));
  records_.heard(index("store1"), wire::digest(std::vector<std::uint32_t>{4}));
  EXPECT_FALSE(records_.wants(index("store1")));
  records_.heard(index("store1"), wire::digest(std::vector<std::uint32_t>{5}));
  EXPECT_TRUE(records_.wants(index("store1")));
}

TEST_F(RecordsTest, RefusesWhatCannotBe) {
  EXPECT_THAT(claim("store1", {1024}).error().message, HasSubstr("site 1024 of 1024"));
  EXPECT_FALSE(claim("proxy1", {1}));
  EXPECT_FALSE(records_.claimed({.server = 99, .has_record = true, .sites = {}}));
  EXPECT_FALSE(records_.claimed({.server = index("store1"), .has_record = false, .sites = {}}));
  EXPECT_FALSE(records_.any());
}

}  // namespace
}  // namespace slice::manager
