#include "dirserver/cells/steps.h"

#include <gtest/gtest.h>

namespace slice::dirserver {
namespace {

PreparedRecord sample() {
  AttributeCell cell;
  cell.self.cell = {SiteId{3}, FileId{0x30000000007}, 9};
  cell.self.type = nfs3::FileType::kSymlink;
  cell.symlink_target = "to/where";
  cell.nlink = 2;
  NameStep name{.how = NameStep::How::kRetarget,
                .directory = {SiteId{1}, FileId{4}, 5},
                .position = Position{77},
                .name = std::string(255, 'n'),
                .target = cell.self};
  PreparedRecord record{
      .id = {SiteId{2}, 0x1122334455667788, 5}, .rename_lock = true, .what = {SiteId{3}, {}}};
  record.what.steps = {CellStep{CellStep::How::kChange, cell}, name, CellStep{CellStep::How::kErase, cell},
                       CellStep{CellStep::How::kCreate, cell}};
  return record;
}

TEST(Steps, ComeBackAsTheyWere) {
  PreparedRecord record = sample();
  auto back = decode_prepared(SiteId{3}, encode(record));
  ASSERT_TRUE(back.has_value()) << back.error().message;
  EXPECT_EQ(back->id, record.id);
  EXPECT_TRUE(back->rename_lock);
  ASSERT_EQ(back->what.steps.size(), 4u);
  const auto& cell = std::get<CellStep>(back->what.steps[0]);
  EXPECT_EQ(cell.how, CellStep::How::kChange);
  EXPECT_EQ(cell.cell.symlink_target, "to/where");
  const auto& name = std::get<NameStep>(back->what.steps[1]);
  EXPECT_EQ(name.how, NameStep::How::kRetarget);
  EXPECT_EQ(name.name.size(), 255u);
  EXPECT_EQ(name.position, Position{77});
  EXPECT_EQ(std::get<CellStep>(back->what.steps[2]).how, CellStep::How::kErase);
  EXPECT_EQ(std::get<CellStep>(back->what.steps[3]).how, CellStep::How::kCreate);
  EXPECT_EQ(encode(*back), encode(record));
}

TEST(Steps, EveryShortRecordIsRefused) {
  std::string whole = encode(sample());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    auto back = decode_prepared(SiteId{3}, std::string_view(whole).substr(0, size));
    ASSERT_FALSE(back.has_value()) << size;
    EXPECT_EQ(back.error().code, Errc::kCorrupt);
  }
  EXPECT_FALSE(decode_prepared(SiteId{3}, whole + "x").has_value());
}

TEST(Steps, ARecordOfAnotherSiteIsRefused) {
  EXPECT_FALSE(decode_prepared(SiteId{4}, encode(sample())).has_value());
}

TEST(Steps, AnUnknownKindIsRefused) {
  std::string whole = encode(sample());
  whole[1 + 20 + 1 + 2] = 99;  // version, transaction, rename lock, number of steps
  EXPECT_FALSE(decode_prepared(SiteId{3}, whole).has_value());
}

TEST(Intentions, ComeBackAsTheyWere) {
  IntentionRecord record{{SiteId{2}, 3, 4}, {SiteId{9}, SiteId{1}}};
  auto back = decode_intention(encode(record));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->id, record.id);
  EXPECT_EQ(back->participants, record.participants);
  EXPECT_FALSE(decode_intention(encode(record).substr(0, 27)).has_value());
}

}  // namespace
}  // namespace slice::dirserver
