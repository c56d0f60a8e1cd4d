#include "dirserver/store/usage_count.h"

#include "dirserver/testing/fixture.h"

namespace slice::dirserver::testing {
namespace {

using namespace std::chrono_literals;

constexpr QuotaId kAnnsUse{QuotaKind::kUser, 1001}, kBobsUse{QuotaKind::kUser, 1002},
    kStaffsUse{QuotaKind::kGroup, 50};

class UsageCountTest : public ::testing::Test {
 protected:
  void put(SiteId site, std::uint64_t number, std::uint32_t uid, std::uint64_t size) {
    AttributeCell cell = cell_of(site, number, uid, size);
    storage::WriteBatch batch;
    batch.put(attribute_key(site, cell.self.cell.fileid), encode(cell));
    ASSERT_TRUE(store_.apply(batch));
  }
  static AttributeCell cell_of(SiteId site, std::uint64_t number, std::uint32_t uid, std::uint64_t size) {
    AttributeCell cell;
    cell.self.cell = {site, FileId{std::uint64_t{site.value} << 48 | number}, 1};
    cell.uid = uid;
    cell.gid = kStaffsUse.id;
    cell.size = size;
    cell.stored = std::vector<StoredPart>{{1, size}};
    return cell;
  }
  void count() { loop_.advance(1s); }

  ManualLoop loop_;
  storage::MemoryMedium medium_;
  storage::MemoryStore store_{loop_, medium_};
  UsageCount usage_;
};

TEST_F(UsageCountTest, CountsWhatThereIsAndFollowsIt) {
  for (std::uint64_t i = 1; i <= 1000; ++i) put(SiteId{3}, i, i % 2 == 0 ? 1001 : 1002, 4096);
  put(SiteId{4}, 1, 1001, 1 << 20);
  usage_.begin(store_, {SiteId{3}, SiteId{4}}, loop_);
  EXPECT_FALSE(usage_.counted());
  // A change before its site is counted: the count is of what was there at the begin.
  const auto before = usage_of(cell_of(SiteId{3}, 1000, 1001, 4096));
  usage_.changed({SiteId{3}, before, usage_of(cell_of(SiteId{3}, 1000, 1001, 8192))});
  store_
      .apply([&] {
        storage::WriteBatch batch;
        batch.put(attribute_key(SiteId{3}, FileId{3ull << 48 | 1000}),
                  encode(cell_of(SiteId{3}, 1000, 1001, 8192)));
        return batch;
      }())
      .value();
  count();
  ASSERT_TRUE(usage_.counted());
  EXPECT_EQ(usage_.of(kAnnsUse), (QuotaUsage{500 * 4096 + 4096 + (1 << 20), 501}));
  EXPECT_EQ(usage_.of(kBobsUse), (QuotaUsage{500 * 4096, 500}));
  EXPECT_EQ(usage_.of(kStaffsUse), (QuotaUsage{1001 * 4096 + (1 << 20), 1001}));
  // Erased; given away; made.
  usage_.changed({SiteId{4}, usage_of(cell_of(SiteId{4}, 1, 1001, 1 << 20)), std::nullopt});
  usage_.changed({SiteId{3}, before, usage_of(cell_of(SiteId{3}, 2, 1002, 4096))});
  usage_.changed({SiteId{3}, std::nullopt, before});
  EXPECT_EQ(usage_.of(kAnnsUse), (QuotaUsage{501 * 4096, 500}));
  EXPECT_EQ(usage_.of(kBobsUse), (QuotaUsage{501 * 4096, 501}));
}

TEST_F(UsageCountTest, SitesComeAndGo) {
  put(SiteId{3}, 1, 1001, 4096);
  put(SiteId{5}, 1, 1001, 8192);
  usage_.begin(store_, {SiteId{3}}, loop_);
  count();
  EXPECT_EQ(usage_.of(kAnnsUse), (QuotaUsage{4096, 1}));
  usage_.came(store_, SiteId{5}, loop_);
  EXPECT_FALSE(usage_.counted());
  usage_.went(SiteId{3});
  count();
  EXPECT_TRUE(usage_.counted());
  EXPECT_EQ(usage_.of(kAnnsUse), (QuotaUsage{8192, 1}));
  // One that goes before it is counted.
  usage_.came(store_, SiteId{3}, loop_);
  usage_.went(SiteId{3});
  count();
  EXPECT_TRUE(usage_.counted());
  EXPECT_EQ(usage_.of(kAnnsUse), (QuotaUsage{8192, 1}));
  usage_.end();
  EXPECT_FALSE(usage_.counted());
  EXPECT_EQ(usage_.of(kAnnsUse), QuotaUsage{});
}

TEST_F(UsageCountTest, NobodyIsCountedUntilSomebodyHasAQuota) {
  usage_.changed({SiteId{3}, std::nullopt, usage_of(cell_of(SiteId{3}, 1, 1001, 4096))});
  usage_.came(store_, SiteId{3}, loop_);
  count();
  EXPECT_FALSE(usage_.on());
  EXPECT_EQ(usage_.of(kAnnsUse), QuotaUsage{});
}

}  // namespace
}  // namespace slice::dirserver::testing
