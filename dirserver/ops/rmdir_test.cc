#include "dirserver/testing/fixture.h"

namespace slice::dirserver::testing {
namespace {

using RmdirTest = DirectoryFixture;

TEST_F(RmdirTest, OnlyEmptyOnes) {
  Handle d = mkdir(root(), "d").handle;
  create(d, "f");
  EXPECT_EQ(rmdir(root(), "d"), Status::kNotEmpty);
  remove(d, "f");
  EXPECT_EQ(rmdir(root(), "d"), Status::kOk);
  EXPECT_EQ(attributes(root()).nlink, 2u);
  EXPECT_EQ(getattr(d), Status::kStale);
  EXPECT_EQ(create(d, "f").status, Status::kStale);
  EXPECT_EQ(rmdir(root(), "d"), Status::kNoEnt);
}

TEST_F(RmdirTest, Refusals) {
  create(root(), "f");
  EXPECT_EQ(rmdir(root(), "f"), Status::kNotDir);
  EXPECT_EQ(rmdir(root(), "."), Status::kInval);
  EXPECT_EQ(rmdir(root(), ".."), Status::kExist);
  Handle sticky = mkdir(root(), "sticky", {}, 01777).handle;
  mkdir(sticky, "d", {.uid = 3, .gid = 3});
  EXPECT_EQ(rmdir(sticky, "d", {.uid = 4, .gid = 4}), Status::kPerm);
  EXPECT_EQ(rmdir(sticky, "d", {.uid = 3, .gid = 3}), Status::kOk);
}

// Exactly one of RMDIR and a concurrent CREATE in the directory wins.
TEST_F(RmdirTest, AgainstACreate) {
  Handle d = mkdir(root(), "d").handle;
  auto removal = send(Procedure::kRmdir, nfs3::DirOpArgs{root(), "d"});
  auto creation = send(Procedure::kCreate, nfs3::CreateArgs{.where = {d, "f"}});
  rpc::XdrReader removed(wait(removal)), created(wait(creation));
  EXPECT_EQ(static_cast<Status>(removed.u32()), Status::kOk);
  EXPECT_EQ(static_cast<Status>(created.u32()), Status::kStale);
}

}  // namespace
}  // namespace slice::dirserver::testing
