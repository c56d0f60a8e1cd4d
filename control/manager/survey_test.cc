#include "control/manager/survey.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "routing/tables.h"
#include "service/testing/sample_config.h"

namespace slice::manager {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;
using wire::Holding;
using Kind = Survey::Verdict::Kind;

class SurveyTest : public ::testing::Test {
 protected:
  wire::Tables tables(std::uint64_t generation) const {
    wire::Tables made = routing::RoutingTables::initial(config_);
    made.generation = Generation{generation};
    return made;
  }
  wire::HeartbeatArgs beat(const std::string& name, Holding holding, const wire::Tables& held = {}) {
    wire::HeartbeatArgs args;
    args.server = config_.find(name)->index;
    args.holding = holding;
    args.generation = held.generation;
    if (held.generation.value > 0) args.tables_digest = wire::digest(held);
    survey_.heard(args, now_);
    return args;
  }
  // Tells of tables, and offers them where they are asked for.
  void has(const std::string& name, const wire::Tables& held, Holding holding = Holding::kTables) {
    wire::HeartbeatArgs args = beat(name, holding, held);
    if (survey_.wants(args)) EXPECT_TRUE(survey_.offered({args.server, held}));
  }
  void all_say(Holding holding) {
    for (const char* name : {"dir1", "small1", "store1", "store2", "coord1"}) beat(name, holding);
  }
  // It has a record of the sites that it has by these tables, and tells it.
  void has_record(const std::string& name, const wire::Tables& by, bool tells = true) {
    const auto sites = wire::sites_of(by, name);
    wire::HeartbeatArgs args{.server = config_.find(name)->index, .holding = Holding::kData};
    args.record_digest = wire::digest(sites);
    survey_.heard(args, now_);
    records_.heard(args.server, args.record_digest);
    wire::ClaimArgs claim{.server = args.server, .has_record = true, .sites = {}};
    for (std::uint32_t site : sites) claim.sites.push_back({site, Generation{1}});
    if (members_[args.server].role == wire::Role::kStorage) claim.layout_sites = sites;
    if (tells) ASSERT_TRUE(records_.claimed(claim));
  }
  Survey::Verdict verdict() { return survey_.verdict(now_); }

  EnsembleConfig config_ = service::testing::sample_config();
  std::vector<wire::ServerEntry> members_ = routing::RoutingTables::initial(config_).servers;
  Records records_{config_, members_};
  Survey survey_{config_, members_, records_};
  MonoTime now_{};
};

TEST_F(SurveyTest, DealsWhenEveryServerSaysThatItNeverServedAndNotBefore) {
  for (const char* name : {"dir1", "small1", "store1", "coord1", "proxy1", "manager1"}) {
    EXPECT_EQ(verdict().kind, Kind::kWait);
    beat(name, Holding::kNothing);
  }
  now_ += 1h;
  EXPECT_EQ(verdict().kind, Kind::kWait);
  EXPECT_THAT(verdict().text, HasSubstr("store2"));
  EXPECT_THAT(verdict().text, Not(HasSubstr("store1")));
  beat("store2", Holding::kNothing);
  EXPECT_EQ(verdict().kind, Kind::kDeal);
}

TEST_F(SurveyTest, NeverDealsWhereAServerHoldsData) {
  all_say(Holding::kNothing);
  beat("store1", Holding::kData);
  now_ += 1h;
  EXPECT_EQ(verdict().kind, Kind::kWait);
  EXPECT_THAT(verdict().text, HasSubstr("backup"));
  EXPECT_THAT(verdict().text, HasSubstr("store1"));
}

TEST_F(SurveyTest, TakesTheNewestTablesOver) {
  all_say(Holding::kNothing);
  has("store1", tables(4));
  EXPECT_EQ(verdict().kind, Kind::kTakeOver);
  wire::Tables newer = tables(5);
  newer.sites[2][0] = config_.find("store2")->index;
  has("dir1", newer);
  has("store1", tables(4));
  ASSERT_EQ(verdict().kind, Kind::kTakeOver);
  EXPECT_EQ(wire::digest(verdict().tables), wire::digest(newer));
  EXPECT_EQ(verdict().text, "dir1");
}

TEST_F(SurveyTest, WaitsForSilentServersThatMayHaveNewerTablesButNotForEver) {
  has("store1", tables(4));
  EXPECT_EQ(verdict().kind, Kind::kWait);
  EXPECT_THAT(verdict().text, HasSubstr("dir1, small1, store2, coord1"));
  now_ += Survey::kPatience;
  EXPECT_EQ(verdict().kind, Kind::kTakeOver);
}

TEST_F(SurveyTest, DoesNotChooseBetweenDifferentTablesOfOneGeneration) {
  all_say(Holding::kNothing);
  wire::Tables other = tables(5);
  other.sites[2][0] = config_.find("store2")->index;
  has("store1", tables(5));
  has("store2", other);
  now_ += 1h;
  EXPECT_EQ(verdict().kind, Kind::kWait);
  EXPECT_THAT(verdict().text, HasSubstr("store1 and store2 have different tables of generation 5"));
  has("dir1", tables(6));
  EXPECT_EQ(verdict().kind, Kind::kTakeOver) << "newer ones are beyond doubt";
}

TEST_F(SurveyTest, HintsCountWhereThereIsDataAndNothingBetter) {
  has("proxy1", tables(7), Holding::kHints);
  all_say(Holding::kNothing);
  EXPECT_EQ(verdict().kind, Kind::kDeal) << "nobody has data that they could be about";
  beat("store1", Holding::kData);
  EXPECT_EQ(verdict().kind, Kind::kWait) << "another proxy may come";
  now_ += Survey::kPatience;
  ASSERT_EQ(verdict().kind, Kind::kTakeOver);
  EXPECT_EQ(verdict().tables.generation, Generation{7});
  has("store2", tables(5));
  EXPECT_EQ(verdict().tables.generation, Generation{5}) << "what a server has is no hint";
}

TEST_F(SurveyTest, RecordsOfAllServersAreEnough) {
  wire::Tables was = tables(8);
  was.sites[2][0] = config_.find("store2")->index;
  for (const char* name : {"dir1", "small1", "store1", "coord1"}) has_record(name, was);
  EXPECT_EQ(verdict().kind, Kind::kWait);
  EXPECT_THAT(verdict().text, HasSubstr("513 storage sites"));
  has_record("store2", was, false);
  EXPECT_EQ(verdict().text, "for the records of store2");
  has_record("store2", was);
  beat("proxy1", Holding::kHints, tables(11));
  ASSERT_EQ(verdict().kind, Kind::kTakeOver) << "whatever hints a proxy has";
  EXPECT_EQ(verdict().tables.sites[2], was.sites[2]);
  EXPECT_EQ(verdict().tables.generation, Generation{12}) << "a later one than any";
}

TEST_F(SurveyTest, RecordsGoBeforeTables) {
  wire::Tables was = tables(8);
  was.sites[2][0] = config_.find("store2")->index;
  all_say(Holding::kNothing);
  has_record("store2", was);
  EXPECT_EQ(verdict().kind, Kind::kWait);
  has("store1", tables(5));
  ASSERT_EQ(verdict().kind, Kind::kTakeOver) << "of sites without a record tables say where they are";
  EXPECT_EQ(verdict().tables.sites[2][0], config_.find("store2")->index);
  EXPECT_EQ(verdict().tables.generation, Generation{6});
}

TEST_F(SurveyTest, ARecordOfOneServerMeansThatTheEnsembleIsNotNew) {
  all_say(Holding::kNothing);
  EXPECT_EQ(verdict().kind, Kind::kDeal);
  has_record("dir1", tables(1));
  EXPECT_EQ(verdict().kind, Kind::kWait);
}

TEST_F(SurveyTest, DoesNotChooseBetweenTwoRecordsOfASite) {
  wire::Tables was = tables(8), other = tables(8);
  other.sites[2][0] = config_.find("store2")->index;
  for (const char* name : {"dir1", "small1", "store1", "coord1"}) has_record(name, was);
  has_record("store2", other);
  EXPECT_EQ(verdict().kind, Kind::kWait);
  EXPECT_THAT(verdict().text, HasSubstr("both store1 and store2 have a record of storage site 0"));
}

TEST_F(SurveyTest, TablesThatDoNotFitAreRefusedAndNotAskedForAgain) {
  all_say(Holding::kNothing);
  wire::Tables strange = tables(5);
  strange.servers[config_.find("store2")->index].name = "store9";
  wire::HeartbeatArgs args = beat("store1", Holding::kTables, strange);
  EXPECT_TRUE(survey_.wants(args));
  EXPECT_FALSE(survey_.offered({args.server, tables(5)})) << "it told of others";
  EXPECT_FALSE(survey_.offered({args.server, strange}));
  EXPECT_FALSE(survey_.wants(args));
  EXPECT_EQ(verdict().kind, Kind::kWait);
  EXPECT_THAT(verdict().text, HasSubstr("server 3 is 'store9', in this process's configuration 'store2'"));
  EXPECT_FALSE(survey_.offered({99, strange}));
}

}  // namespace
}  // namespace slice::manager
