#include "control/slicectl/volume_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bpf/shared/file_handle.h"

namespace slice::slicectl {
namespace {

using ::testing::HasSubstr;

block::RawVolume volume() {
  block::RawVolume out{.name = "disk", .file = {}, .attributes = {}, .begin = 65536};
  out.file.handle.flags = SLICE_HANDLE_MIRRORED;
  out.attributes.size = 65536 + (3 << 20);
  out.attributes.used = 1 << 20;
  out.attributes.rdev_major = 7;
  return out;
}

TEST(VolumeCommand, ListsThoseThatAreNotWholeToo) {
  EXPECT_EQ(render_volumes({}, Format::kText), "there are no raw volumes\n");
  const std::vector<ListedVolume> all{{"disk", volume()}, {"half", std::nullopt}};
  const std::string text = render_volumes(all, Format::kText);
  EXPECT_THAT(text, HasSubstr("disk    3.0 MiB"));
  EXPECT_THAT(text, HasSubstr("not whole"));
  const auto json = nlohmann::json::parse(render_volumes(all, Format::kJson));
  EXPECT_EQ(json["volumes"][0]["copies"], 2);
  EXPECT_EQ(json["volumes"][0]["epoch"], 7);
  EXPECT_EQ(json["volumes"][1]["whole"], false);
}

TEST(VolumeCommand, TellsWhatEachNodeHas) {
  Where where;
  where.storage.push_back({.server = "store1",
                           .site = {},
                           .stripes = {},
                           .stat = wire::ObjectStatResult{.allocated = 1 << 20, .extents = {}}});
  where.storage.push_back(
      {.server = "store2", .site = {}, .stripes = {}, .stat = fail(Errc::kTimedOut, "silent")});
  where.storage.push_back({.server = "store3",
                           .site = {},
                           .stripes = {},
                           .stat = wire::ObjectStatResult{.status = nfs3::Status::kNoEnt, .extents = {}}});
  const std::string text = render_volume(volume(), where, Format::kText);
  EXPECT_THAT(text, HasSubstr("disk: 3145728 bytes, copies 2"));
  EXPECT_THAT(text, HasSubstr("store1        1.0 MiB"));
  EXPECT_THAT(text, HasSubstr("store2        does not answer"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("store3")));
  EXPECT_EQ(nlohmann::json::parse(render_volume(volume(), where, Format::kJson))["nodes"][0]["stored"],
            1 << 20);
}

// What a command line is refused for, before anybody is asked.
Status checked(std::vector<std::string> words) {
  cli::Program app("slicectl");
  VolumeCommand command(app);
  EXPECT_FALSE(app.parse(std::move(words)));
  return command.check();
}

TEST(VolumeCommand, RefusesWhatIsNoSizeOrName) {
  EXPECT_TRUE(checked(
      {"volume", "create", "disk-1.a_B", "--size", "10GiB", "--stripe-unit", "1MiB", "--placement", "hash"}));
  EXPECT_TRUE(checked({"volume", "list"}));
  EXPECT_TRUE(checked({"volume", "resize", "disk", "--size", "512"}));
  for (const char* size : {"0", "1000", "513", "2EiB", "much", "-512"})
    EXPECT_FALSE(checked({"volume", "create", "disk", std::string("--size=") + size})) << size;
  for (const char* name : {"a/b", ".a", "a b"})
    EXPECT_FALSE(checked({"volume", "create", name, "--size", "1MiB"})) << name;
  EXPECT_FALSE(checked({"volume", "create", "disk", "--size", "1MiB", "--stripe-unit", "3KiB"}));
  EXPECT_FALSE(checked({"volume", "remove", "a/b"}));
}

}  // namespace
}  // namespace slice::slicectl
