#include "dirserver/testing/fixture.h"

namespace slice::dirserver::testing {
namespace {

using RmdirTest = DirectoryFixture;

TEST_F(RmdirTest, OnlyEmptyOnes) {
  Handle d = mkdir(root(), "d").handle;
  create(d, "f");
  EXPECT_EQ(rmdir(root(), "d"), NfsStatus::kNotEmpty);
  remove(d, "f");
  EXPECT_EQ(rmdir(root(), "d"), NfsStatus::kOk);
  EXPECT_EQ(attributes(root()).nlink, 2u);
  EXPECT_EQ(getattr(d), NfsStatus::kStale);
  EXPECT_EQ(create(d, "f").status, NfsStatus::kStale);
  EXPECT_EQ(rmdir(root(), "d"), NfsStatus::kNoEnt);
}

TEST_F(RmdirTest, Refusals) {
  create(root(), "f");
  EXPECT_EQ(rmdir(root(), "f"), NfsStatus::kNotDir);
  EXPECT_EQ(rmdir(root(), "."), NfsStatus::kInval);
  EXPECT_EQ(rmdir(root(), ".."), NfsStatus::kExist);
  Handle sticky = mkdir(root(), "sticky", {}, 01777).handle;
  mkdir(sticky, "d", {.uid = 3, .gid = 3});
  EXPECT_EQ(rmdir(sticky, "d", {.uid = 4, .gid = 4}), NfsStatus::kPerm);
  EXPECT_EQ(rmdir(sticky, "d", {.uid = 3, .gid = 3}), NfsStatus::kOk);
}

// Exactly one of RMDIR and a concurrent CREATE in the directory wins.
TEST_F(RmdirTest, AgainstACreate) {
  Handle d = mkdir(root(), "d").handle;
  auto removal = send(Procedure::kRmdir, nfs3::DirOpArgs{root(), "d"});
  auto creation = send(Procedure::kCreate, nfs3::CreateArgs{.where = {d, "f"}});
  rpc::XdrReader removed(wait(removal)), created(wait(creation));
  EXPECT_EQ(static_cast<NfsStatus>(removed.u32()), NfsStatus::kOk);
  EXPECT_EQ(static_cast<NfsStatus>(created.u32()), NfsStatus::kStale);
}

}  // namespace
}  // namespace slice::dirserver::testing
