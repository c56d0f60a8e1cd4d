// Messages of trees, and trees among the settings.
#include "wire/trees.h"

#include <gtest/gtest.h>

#include "wire/settings.h"
#include "wire/testing/codec_checks.h"

namespace slice::wire {
namespace {

Settings with_trees() {
  Settings settings;
  settings.exports.resize(2);
  settings.exports[1].path = "/home";
  settings.trees = {{TreeId{7}, {.path = "/home", .above = {}}},
                    {TreeId{0xffff}, {.path = "/home/ann", .above = TreeId{7}}}};
  return settings;
}

TEST(TreeMessages, AreWhatTheyWere) {
  wire_tests::check_message(ChangeTreeArgs{.what = {.path = "/home", .above = TreeId{5}}});
  wire_tests::check_message(ChangeTreeArgs{.remove = true, .tree = TreeId{0xffff}, .what = {}});
  wire_tests::check_message(ChangeTreeResult{
      .refused = "no", .tree = TreeId{9}, .generation = SettingsGeneration{7}, .late = {"dir1", "proxy1"}});
}

TEST(TreeMessages, StandBehindAllElseOfSettings) {
  rpc::XdrWriter before, out;
  encode(before, SettingsResult{Settings{.exports = {{}, {}}}});
  encode(out, SettingsResult{with_trees()});
  EXPECT_EQ(to_hex(out.view().first(before.size())), to_hex(before.view()));
  SettingsResult read;
  ASSERT_TRUE(decode(out.view(), read));
  EXPECT_EQ(read.settings, with_trees());
  EXPECT_NE(digest(with_trees()), digest(Settings{.exports = {{}, {}}}));
}

TEST(TreeMessages, WhatCannotBeDoesNotDecode) {
  const auto decodes = [](const Settings& settings) {
    rpc::XdrWriter out;
    encode(out, SettingsResult{settings});
    SettingsResult read;
    return decode(out.view(), read);
  };
  EXPECT_TRUE(decodes(with_trees()));
  Settings bad = with_trees();
  bad.exports[1].path = "/home/";
  EXPECT_FALSE(decodes(bad));
  bad = with_trees();
  bad.trees[TreeId{7}].path = "home";
  EXPECT_FALSE(decodes(bad));
  bad = with_trees();
  bad.trees[TreeId{0}] = {.path = "/none", .above = {}};
  EXPECT_FALSE(decodes(bad));
}

}  // namespace
}  // namespace slice::wire
