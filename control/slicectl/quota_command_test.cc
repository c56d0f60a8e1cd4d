#include "control/slicectl/quota_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace slice::slicectl {
namespace {

using ::testing::HasSubstr;

TEST(QuotaCommand, LimitsAreSoftAndHard) {
  EXPECT_EQ(parse_quota_limit("10GiB:12GiB").value(), (QuotaLimit{10ull << 30, 12ull << 30, 0}));
  EXPECT_EQ(parse_quota_limit("0:1000").value(), (QuotaLimit{0, 1000, 0}));
  EXPECT_EQ(parse_quota_limit("5MiB").value(), (QuotaLimit{5 << 20, 0, 0}));
  for (const char* wrong : {"", ":", "5:", "x:1", "2GiB:1GiB", "1:2:3", "-1"})
    EXPECT_FALSE(parse_quota_limit(wrong)) << wrong;
}

TEST(QuotaCommand, GraceIsATime) {
  EXPECT_EQ(parse_grace("90s").value(), 90u);
  EXPECT_EQ(parse_grace("30m").value(), 1800u);
  EXPECT_EQ(parse_grace("7d").value(), kDefaultQuotaGrace);
  for (const char* wrong : {"", "7", "d", "-1d", "1w", "99999999d"})
    EXPECT_FALSE(parse_grace(wrong)) << wrong;
  EXPECT_EQ(grace_text(7 * 24 * 3600), "7d");
  EXPECT_EQ(grace_text(5400), "90m");
  EXPECT_EQ(grace_text(3 * 3600 + 61), "3h1m");
  EXPECT_EQ(grace_text(61), "61s");
}

TEST(QuotaCommand, NamesAreThoseOfTheHost) {
  EXPECT_EQ(find_owner("user", "root", {}).value(), (QuotaId{QuotaKind::kUser, 0}));
  EXPECT_EQ(find_owner("group", "4711", {}).value(), (QuotaId{QuotaKind::kGroup, 4711}));
  EXPECT_EQ(find_owner("user", "nobody-of-that-name", {}).error().code, Errc::kNotFound);
}

TEST(QuotaCommand, TreesAreNamedByTheirPaths) {
  Settings settings;
  settings.trees[TreeId{77}] = {.path = "/home", .above = {}};
  EXPECT_EQ(find_owner("tree", "/home", settings).value(), (QuotaId{QuotaKind::kTree, 77}));
  EXPECT_EQ(find_owner("tree", "/hom", settings).error().code, Errc::kNotFound);
  const wire::QuotaUsageResult usage{.known = true, .quotas = {{{QuotaKind::kTree, 77}, {}, {}}}};
  EXPECT_THAT(render_quotas(usage, settings, 0, Format::kText), HasSubstr("tree /home"));
}

TEST(QuotaCommand, ShowsLimitsAndWhoIsOverThem) {
  wire::QuotaUsageResult usage{.known = true, .quotas = {}};
  EXPECT_EQ(render_quotas(usage, {}, 0, Format::kText), "nobody has a quota\n");
  usage.quotas = {{{QuotaKind::kUser, 4711},
                   {.space = {1 << 20, 2 << 20, 100}, .files = {0, 7, 0}, .grace = 60},
                   {3 << 19, 7}}};
  const std::string text = render_quotas(usage, {}, 130, Format::kText);
  for (const char* word : {"user 4711", "1.5 MiB", "1.0 MiB", "2.0 MiB", "grace 30s", "full"})
    EXPECT_THAT(text, HasSubstr(word));
  EXPECT_THAT(render_quotas(usage, {}, 200, Format::kText), HasSubstr("grace over"));
  usage.known = false;
  EXPECT_THAT(render_quotas(usage, {}, 130, Format::kText), HasSubstr("not everything is counted yet"));
  const auto json = nlohmann::json::parse(render_quotas(usage, {}, 130, Format::kJson));
  EXPECT_FALSE(json["counted"]);
  EXPECT_EQ(json["quotas"][0]["space"]["used"], 3 << 19);
  EXPECT_EQ(json["quotas"][0]["space"]["grace_ends"], 160);
  EXPECT_EQ(json["quotas"][0]["files"]["hard"], 7);
  EXPECT_FALSE(json["quotas"][0]["files"].contains("grace_ends"));
}

}  // namespace
}  // namespace slice::slicectl
