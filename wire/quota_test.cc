// Messages of quotas, and RQUOTA.
#include "wire/quota.h"

#include <gtest/gtest.h>

#include "wire/rquota.h"
#include "wire/settings.h"
#include "wire/testing/codec_checks.h"

namespace slice::wire {
namespace {

constexpr QuotaId kUser{QuotaKind::kUser, 1001}, kGroup{QuotaKind::kGroup, 50};
constexpr Quota kQuota{.space = {1, 2, 3}, .files = {4, 5, 6}, .grace = 7};

TEST(QuotaMessages, AreWhatTheyWere) {
  wire_tests::check_message(QuotaReportArgs{.server = 3,
                                            .counted = true,
                                            .same = false,
                                            .figures = {{kUser, {1, 2}, 3}, {kGroup, {4, 5}, 6}},
                                            .seen = 9});
  wire_tests::check_message(QuotaReportResult{.again = true, .version = 8, .sums = {{kGroup, {4, 5}, 6}}});
  wire_tests::check_message(
      ChangeQuotaArgs{.whose = kGroup, .fields = ChangeQuotaArgs::kSpace, .quota = kQuota});
  wire_tests::check_message(ChangeQuotaArgs{.whose = kUser, .remove = true, .quota = {}});
  wire_tests::check_message(
      ChangeQuotaResult{.refused = "no", .generation = SettingsGeneration{7}, .late = {"dir1", "dir2"}});
  wire_tests::check_message(QuotaUsageArgs{.all = true, .whose = kGroup});
  wire_tests::check_message(QuotaUsageResult{.known = true, .quotas = {{kUser, kQuota, {8, 9}}}});
  wire_tests::check_message(RoomArgs{.server = 1, .owners = {2, 3, {}}, .held = 1ull << 40, .needed = 5});
  wire_tests::check_message(RoomResult{.status = nfs3::Status::kOk, .promised = 1ull << 40, .others = true});
}

TEST(QuotaMessages, RoomInATreeIsAskedForBehindAllElse) {
  const RoomArgs without{.server = 1, .owners = {2, 3, {}}, .held = 6, .needed = 5};
  RoomArgs within = without, read;
  within.owners.tree = TreeId{0xfffe};
  rpc::XdrWriter before, out;
  encode(before, without);
  encode(out, within);
  EXPECT_EQ(to_hex(out.view().first(before.size())), to_hex(before.view()));
  EXPECT_EQ(out.size(), before.size() + 4);
  ASSERT_TRUE(decode(out.view(), read));
  EXPECT_EQ(read.owners, within.owners);
  before.u32(0x10000);
  EXPECT_FALSE(decode(before.view(), read)) << "no tree has such a number";
}

TEST(QuotaMessages, WhatIsOutOfOrderDoesNotDecode) {
  rpc::XdrWriter out;
  encode(out, QuotaReportArgs{.figures = {{kGroup, {4, 5}, 6}, {kUser, {1, 2}, 3}}});
  QuotaReportArgs report;
  EXPECT_FALSE(decode(out.view(), report));
  rpc::XdrWriter both;
  encode(both,
         ChangeQuotaArgs{.whose = kUser, .remove = true, .fields = ChangeQuotaArgs::kSpace, .quota = {}});
  ChangeQuotaArgs change;
  EXPECT_FALSE(decode(both.view(), change)) << "removed and set";
}

TEST(QuotaMessages, SettingsWithoutQuotasAreThoseOfVersionsBefore) {
  rpc::XdrWriter before, out;
  encode(before, SettingsResult{Settings{}});
  Settings settings;
  settings.quotas = {{kUser, kQuota}, {kGroup, kQuota}};
  for (std::uint32_t failover : {kDefaultFailoverMs, 9000u}) {
    settings.failover_ms = failover;
    rpc::XdrWriter with;
    encode(with, SettingsResult{settings});
    EXPECT_GT(with.size(), before.size());
    SettingsResult again;
    ASSERT_TRUE(decode(with.view(), again));
    EXPECT_EQ(again.settings, settings);
    EXPECT_NE(digest(settings), digest(Settings{}));
  }
  encode(out, SettingsResult{Settings{}});
  EXPECT_EQ(as_text(out.view()), as_text(before.view()));
}

TEST(Rquota, VersionOneKnowsUsersAlone) {
  for (std::uint32_t version : {rquota::kVersion, rquota::kExtendedVersion}) {
    rpc::XdrWriter out;
    encode(out, rquota::Args{"/", version == rquota::kVersion ? kUser : kGroup}, version);
    rquota::Args again;
    ASSERT_TRUE(decode(out.view(), again, version));
    EXPECT_EQ(again.path, "/");
    EXPECT_EQ(again.whose, version == rquota::kVersion ? kUser : kGroup);
    for (std::size_t size = 0; size < out.size(); ++size)
      EXPECT_FALSE(decode(out.view().first(size), again, version)) << size;
  }
  rpc::XdrWriter project;
  project.text("/");
  project.u32(2);
  project.u32(5);
  rquota::Args again;
  EXPECT_FALSE(decode(project.view(), again, rquota::kExtendedVersion));
}

TEST(Rquota, FiguresAreBlocks) {
  const Quota quota{.space = {1000, 10 << 20, 0}, .files = {5, 6, 100}, .grace = 50};
  const rquota::Figures figures = rquota::figures_of(quota, {1025, 7}, 120);
  EXPECT_EQ(figures.block_size, 1024u);
  EXPECT_EQ(figures.hard_blocks, 10u << 10);
  EXPECT_EQ(figures.soft_blocks, 1u) << "not 0, which is no limit";
  EXPECT_EQ(figures.blocks, 2u);
  EXPECT_EQ(figures.files, 7u);
  EXPECT_EQ(figures.space_left_s, 0u);
  EXPECT_EQ(figures.files_left_s, 30u);
  EXPECT_EQ(rquota::figures_of(quota, {}, 200).files_left_s, 1u) << "over";
  const rquota::Figures large =
      rquota::figures_of({.space = {0, 1ull << 50, 0}, .files = {}}, {1ull << 49, 1}, 0);
  EXPECT_EQ(std::uint64_t{large.block_size} * large.hard_blocks, 1ull << 50);
  EXPECT_EQ(std::uint64_t{large.block_size} * large.blocks, 1ull << 49);
}

TEST(Rquota, ResultsAreWhatTheyWere) {
  for (rquota::Status status : {rquota::Status::kOk, rquota::Status::kNoQuota, rquota::Status::kPermission}) {
    rpc::XdrWriter out;
    encode(out, rquota::Result{status, status == rquota::Status::kOk ? rquota::figures_of(kQuota, {8, 9}, 5)
                                                                     : rquota::Figures{}});
    rquota::Result again;
    ASSERT_TRUE(decode(out.view(), again));
    EXPECT_EQ(again.status, status);
    if (status == rquota::Status::kOk) EXPECT_EQ(again.figures, rquota::figures_of(kQuota, {8, 9}, 5));
  }
}

}  // namespace
}  // namespace slice::wire
