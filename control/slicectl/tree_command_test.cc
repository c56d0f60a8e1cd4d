#include "control/slicectl/tree_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace slice::slicectl {
namespace {

using ::testing::HasSubstr;

TEST(TreeCommand, ShowsWhoseExportsCount) {
  Settings settings;
  EXPECT_EQ(render_trees(settings, Format::kText), "there are no trees\n");
  settings.exports = {{.path = "/home", .clients = {}}, {.path = "/srv", .clients = {}}};
  settings.trees = {{TreeId{7}, {.path = "/home", .above = {}}},
                    {TreeId{9}, {.path = "/home/ann", .above = {7}}}};
  settings.quotas[{QuotaKind::kTree, 9}] = {};
  const std::string text = render_trees(settings, Format::kText);
  EXPECT_THAT(text, HasSubstr("/home/ann  9       /home  /home        yes"));
  EXPECT_THAT(text, HasSubstr("/srv, which is no tree"));
  const auto json = nlohmann::json::parse(render_trees(settings, Format::kJson));
  EXPECT_EQ(json["trees"][1]["exported_as"], "/home");
  EXPECT_EQ(json["trees"][0]["quota"], false);
  EXPECT_EQ(json["exports_of_no_tree"][0], "/srv");
}

TEST(TreeCommand, OwnersAndModesAreNumbers) {
  nfs3::SetAttributes out;
  ASSERT_TRUE(parse_owner("1001", out));
  EXPECT_EQ(out.uid, 1001u);
  EXPECT_FALSE(out.gid);
  ASSERT_TRUE(parse_owner("0:50", out));
  EXPECT_EQ(out.uid, 0u);
  EXPECT_EQ(out.gid, 50u);
  for (const char* bad : {"", "ann", ":50", "1001:", "1001:50:2", "4294967296", "-1"})
    EXPECT_FALSE(parse_owner(bad, out)) << bad;
  EXPECT_EQ(parse_mode("0755").value(), 0755u);
  EXPECT_EQ(parse_mode("2770").value(), 02770u);
  for (const char* bad : {"", "rwx", "0855", "10000", "-1"}) EXPECT_FALSE(parse_mode(bad)) << bad;
}

}  // namespace
}  // namespace slice::slicectl
