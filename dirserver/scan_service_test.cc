#include "dirserver/scan_service.h"

#include "dirserver/cells/scan_page.h"
#include "dirserver/testing/fixture.h"
#include "service/internal_call.h"

namespace slice::dirserver::testing {
namespace {

using State = wire::ScanValue::State;

std::string key(std::uint64_t number) {
  return attribute_key(SiteId{7}, FileId{number});
}

class ScanPageTest : public ::testing::Test {
 protected:
  ScanPageTest() {
    storage::WriteBatch batch;
    for (std::uint64_t i = 0; i < 100; ++i) batch.put(key(10 * i), "value " + std::to_string(i));
    batch.put(attribute_key(SiteId{8}, FileId{1}), "another site's");
    EXPECT_TRUE(store_.apply(batch).has_value());
  }
  wire::ScanResult scan(std::uint32_t limit, std::vector<std::string> keys = {}) {
    KeyRange range = range_of(SiteId{7}, CellKind::kAttributes);
    return scan_page(store_, {SiteId{7}, std::move(keys), range.begin, range.end, limit});
  }
  ManualLoop loop_;
  storage::MemoryMedium medium_;
  storage::MemoryStore store_{loop_, medium_};
};

TEST_F(ScanPageTest, GivesPagesInOrder) {
  KeyRange range = range_of(SiteId{7}, CellKind::kAttributes);
  for (std::uint32_t limit : {0u, 1u, 50u, 1000u, ~0u}) {
    wire::ScanArgs args{SiteId{7}, {}, range.begin, range.end, limit};
    std::uint64_t next = 0;
    do {
      wire::ScanResult page = scan_page(store_, args);
      ASSERT_EQ(page.status, NfsStatus::kOk);
      ASSERT_FALSE(page.cells.empty()) << "one cell at least, whatever the limit";
      std::size_t bytes = 0;
      for (const wire::ScanCell& cell : page.cells) {
        EXPECT_EQ(cell, (wire::ScanCell{key(10 * next), "value " + std::to_string(next)}));
        bytes += cell.key.size() + cell.value.size();
        ++next;
      }
      EXPECT_TRUE(bytes <= limit || page.cells.size() == 1);
      args.begin = page.next;
    } while (!args.begin.empty());
    EXPECT_EQ(next, 100u);
  }
}

TEST_F(ScanPageTest, GetsKeys) {
  wire::ScanResult got = scan_page(store_, {.site = SiteId{7}, .keys = {key(20), key(21)}});
  ASSERT_EQ(got.values.size(), 2u);
  EXPECT_EQ(got.values[0], (wire::ScanValue{State::kPresent, "value 2"}));
  EXPECT_EQ(got.values[1].state, State::kAbsent);
  EXPECT_TRUE(got.cells.empty());
  medium_.corrupt(key(20));
  got = scan_page(store_, {.site = SiteId{7}, .keys = {key(20)}});
  EXPECT_EQ(got.values[0].state, State::kUnreadable);
}

TEST_F(ScanPageTest, StepsOverWhatCannotBeRead) {
  for (std::uint64_t bad : {0, 30, 310, 320, 330, 990}) medium_.corrupt(key(bad));
  wire::ScanResult page = scan(~0u);
  EXPECT_EQ(page.next, "");
  EXPECT_EQ(page.cells.size(), 94u);
  EXPECT_GE(page.gaps.size(), 4u);
  for (std::uint64_t bad : {0, 30, 310, 320, 330, 990}) {
    EXPECT_EQ(
        std::count_if(page.gaps.begin(), page.gaps.end(),
                      [&](const wire::ScanGap& gap) { return gap.begin <= key(bad) && key(bad) < gap.end; }),
        1)
        << bad;
  }
}

TEST_F(ScanPageTest, RefusesKeysOfOtherSites) {
  KeyRange range = range_of(SiteId{7}, CellKind::kAttributes);
  std::string other = attribute_key(SiteId{8}, FileId{1});
  EXPECT_EQ(scan_page(store_, {.site = SiteId{7}, .keys = {other}}).status, NfsStatus::kInval);
  EXPECT_EQ(scan_page(store_, {SiteId{7}, {}, range.begin, other + "x", 10}).status, NfsStatus::kOk);
  EXPECT_EQ(scan_page(store_, {SiteId{7}, {}, range.begin, attribute_key(SiteId{9}, {}), 10}).status,
            NfsStatus::kInval);
  EXPECT_EQ(scan_page(store_, {SiteId{7}, {}, other, attribute_key(SiteId{9}, {}), 10}).status,
            NfsStatus::kInval);
  EXPECT_EQ(scan_page(store_, {SiteId{7}, {}, range.end, range.begin, 10}).status, NfsStatus::kInval);
  EXPECT_EQ(scan_page(store_, {SiteId{7}, {}, "abc", range.end, 10}).status, NfsStatus::kInval);
  EXPECT_EQ(scan_page(store_, {.site = SiteId{7}, .keys = {""}}).status, NfsStatus::kInval);
}

class ScanServiceTest : public DirectoryFixture {
 protected:
  wire::ScanResult scan(wire::ScanArgs args) {
    return run(service::internal_call<wire::ScanResult>(network_, endpoint("dir1"), wire::kScanProgram,
                                                        wire::ScanProcedure::kScan, args))
        .value();
  }
};

TEST_F(ScanServiceTest, TellsWhatIsStored) {
  Made made = create(root(), "file");
  ASSERT_EQ(made.status, NfsStatus::kOk);
  wire::ScanResult got = scan({.site = kRootSite, .keys = {attribute_key(kRootSite, kRootId)}});
  ASSERT_EQ(got.values.size(), 1u);
  EXPECT_EQ(decode_attribute_cell(kRootSite, got.values[0].value)->entries, 1u);
}

TEST_F(ScanServiceTest, RefusesSitesThatThereAreNot) {
  EXPECT_EQ(scan({.site = SiteId{64}}).status, NfsStatus::kInval);
}

TEST_F(ScanServiceTest, IsForTheEnsembleAlone) {
  Stays stays(loop_);
  CellStore cells(store(), metrics_, 1 << 20, [](SiteId) { return true; }, stays);
  service::SiteGate gate(loop_);
  Snapshots snapshots(context_, cells, gate);
  ScanService service(context_, store(), snapshots);
  rpc::Call call;
  call.procedure = static_cast<std::uint32_t>(wire::ScanProcedure::kScan);
  rpc::XdrWriter out;
  EXPECT_EQ(run(service.handle(call, out)), rpc::Outcome::kDenied);
  call.internal = true;
  EXPECT_EQ(run(service.handle(call, out)), rpc::Outcome::kGarbage);
  call.procedure = 9;
  EXPECT_EQ(run(service.handle(call, out)), rpc::Outcome::kNoProcedure);
}

}  // namespace
}  // namespace slice::dirserver::testing
