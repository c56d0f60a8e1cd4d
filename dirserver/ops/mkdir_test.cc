#include "dirserver/testing/fixture.h"

namespace slice::dirserver::testing {
namespace {

using MkdirTest = DirectoryFixture;

TEST_F(MkdirTest, CountsLinks) {
  Made made = mkdir(root(), "d", {}, 0750);
  ASSERT_EQ(made.status, NfsStatus::kOk);
  EXPECT_EQ(made.attributes.nlink, 2u);
  EXPECT_EQ(made.attributes.mode, 0750u);
  EXPECT_EQ(attributes(root()).nlink, 3u);
  mkdir(made.handle, "sub");
  EXPECT_EQ(attributes(made.handle).nlink, 3u);
  EXPECT_EQ(attributes(root()).nlink, 3u);
  EXPECT_EQ(mkdir(root(), "d").status, NfsStatus::kExist);
  EXPECT_EQ(mkdir(root(), ".").status, NfsStatus::kExist);
}

// Under mkdir switching a directory goes where the routing tables say, and its names go with it.
TEST_F(MkdirTest, IsPlacedWhereTheTablesSay) {
  const routing::RoutingTables& tables = *tables_.get();
  unsigned redirected = 0;
  for (int i = 0; i < 50; ++i) {
    std::string name = "d" + std::to_string(i);
    auto handle = *handles_.open(mkdir(root(), name).handle);
    std::uint64_t hash = tables.name_hash(FileId{1}, name);
    SiteId expected = tables.name_site(Procedure::kMkdir, SiteId{0}, hash);
    EXPECT_EQ(handle.directory_site, expected);
    EXPECT_EQ(handle.fileid.value >> 48, expected.value);
    EXPECT_EQ(handle.cell_key, hash);
    if (expected != SiteId{0}) ++redirected;
    Handle directory = handles_.mint(handle);
    auto file = *handles_.open(create(directory, "f").handle);
    EXPECT_EQ(file.directory_site, expected);
    EXPECT_EQ(names(directory), std::vector<std::string>{"f"});
  }
  EXPECT_GT(redirected, 10u);
  EXPECT_LT(redirected, 40u);
}

}  // namespace
}  // namespace slice::dirserver::testing
