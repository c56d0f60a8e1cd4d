#include "fsck/paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dirserver/fsck/local_source.h"
#include "dirserver/fsck/testing/volume.h"

namespace slice::fsck {
namespace {

using dirserver::kRootId;
using dirserver::fsck::LocalSource;
using dirserver::fsck::testing::Policy;
using dirserver::fsck::testing::TestVolume;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class PathsTest : public ::testing::TestWithParam<Policy> {
 protected:
  Result<std::vector<FilePaths>> try_to_find(std::vector<FileId> files) {
    storage::MemoryMedium medium;
    LocalSource cells(dirserver::fsck::testing::stores_of(loop_, medium, volume_.stored()), 64);
    std::optional<Result<std::vector<FilePaths>>> found;
    spawn([](Task<Result<std::vector<FilePaths>>> task, auto& out) -> Task<void> {
      out = co_await std::move(task);
    }(find_paths(cells, volume_.placement(), std::move(files)), found));
    loop_.run_until([&] { return found.has_value(); }, std::chrono::seconds(10));
    return std::move(found).value();
  }
  std::vector<std::string> paths_of(FileId file) {
    auto found = try_to_find({file});
    EXPECT_TRUE(found);
    return found->front().paths;
  }

  TestVolume volume_{GetParam()};
  ManualLoop loop_;
};

TEST_P(PathsTest, AreOfFilesAndDirectories) {
  const FileId a = volume_.mkdir(kRootId, "a"), b = volume_.mkdir(a, "b b"),
               other = volume_.mkdir(kRootId, "c");
  const FileId file = volume_.create(b, "file"), top = volume_.create(kRootId, "top");
  for (int i = 0; i < 50; ++i) volume_.create(b, "beside" + std::to_string(i));
  EXPECT_THAT(paths_of(file), ElementsAre("/a/b b/file"));
  EXPECT_THAT(paths_of(b), ElementsAre("/a/b b"));
  EXPECT_THAT(paths_of(top), ElementsAre("/top"));
  EXPECT_THAT(paths_of(kRootId), ElementsAre("/"));
  volume_.link(file, other, "again");
  EXPECT_THAT(paths_of(file), UnorderedElementsAre("/a/b b/file", "/c/again"));
}

TEST_P(PathsTest, SayWhatIsNotFound) {
  const FileId a = volume_.mkdir(kRootId, "a"), file = volume_.create(a, "two\nlines");
  const FileId nobody{file.value + 1000}, no_site{FileId{~std::uint64_t{0}}};
  auto found = try_to_find({nobody, file, no_site});
  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), 3u);
  EXPECT_FALSE((*found)[0].exists);
  EXPECT_THAT((*found)[1].paths, ElementsAre("/a/two\nlines"));
  EXPECT_FALSE((*found)[2].exists);
  const std::string text = render(*found, false);
  EXPECT_THAT(text, HasSubstr(fmt::format("{:#x}  (no such file)\n", nobody.value)));
  EXPECT_THAT(text, HasSubstr(fmt::format("{:#x}  \"/a/two\\x0alines\"\n", file.value)));
  EXPECT_THAT(render(*found, true), HasSubstr("\"exists\": false"));
  volume_.unlink(kRootId, "a");
  found = try_to_find({file, a});
  ASSERT_TRUE(found);
  EXPECT_THAT((*found)[0].paths, IsEmpty()) << "nothing leads to its directory";
  EXPECT_THAT(render(*found, false), HasSubstr("(0 of 1 names found)"));
}

TEST_P(PathsTest, ADamagedNameSpaceIsNotWalkedForEver) {
  const FileId a = volume_.mkdir(kRootId, "a"), b = volume_.mkdir(a, "b");
  volume_.link(a, b, "up");
  volume_.cell(a).parent = volume_.cell(b).self.cell;
  EXPECT_THAT(paths_of(b), IsEmpty());
  const std::string key = volume_.key_of(a, "b");
  volume_.names().erase(key);
  volume_.others()[key] = "no bucket";
  EXPECT_EQ(try_to_find({b}).error().code, Errc::kCorrupt);
}

TEST(FileIds, AreReadAsTheyAreShown) {
  EXPECT_EQ(parse_fileid("0x1000000000007")->value, 0x1000000000007u);
  EXPECT_EQ(parse_fileid("281474976710663")->value, 0x1000000000007u);
  for (const char* wrong : {"", "0", "0x", "-1", "7x", "/path", "0x10000000000000000"})
    EXPECT_EQ(parse_fileid(wrong).error().code, Errc::kInvalid) << wrong;
}

INSTANTIATE_TEST_SUITE_P(Policies, PathsTest,
                         ::testing::Values(Policy::kMkdirSwitching, Policy::kNameHashing));

}  // namespace
}  // namespace slice::fsck
