#include "dirserver/testing/fixture.h"

namespace slice::dirserver::testing {
namespace {

using LinkTest = DirectoryFixture;

TEST_F(LinkTest, GivesAFileASecondName) {
  Made file = create(root(), "f");
  Handle d = mkdir(root(), "d").handle;
  nfs3::LinkResult result;
  ASSERT_EQ(call(Procedure::kLink, nfs3::LinkArgs{.file = file.handle, .link = {d, "g"}}, result),
            NfsStatus::kOk);
  EXPECT_EQ(result.attributes->nlink, 2u);
  EXPECT_GT(result.attributes->ctime, file.attributes.ctime);
  EXPECT_TRUE(result.directory.before && result.directory.after);
  EXPECT_EQ(lookup(d, "g").handle, file.handle);
  ASSERT_EQ(remove(root(), "f"), NfsStatus::kOk);
  EXPECT_EQ(lookup(d, "g").attributes.nlink, 1u);
}

TEST_F(LinkTest, Refusals) {
  Made file = create(root(), "f");
  Handle d = mkdir(root(), "d").handle;
  EXPECT_EQ(link(d, root(), "x"), NfsStatus::kIsDir);
  EXPECT_EQ(link(file.handle, root(), "d"), NfsStatus::kExist);
  EXPECT_EQ(link(file.handle, root(), "."), NfsStatus::kExist);
  EXPECT_EQ(link(file.handle, file.handle, "x"), NfsStatus::kNotDir);
  EXPECT_EQ(link(file.handle, d, "x", {.uid = 4, .gid = 4}), NfsStatus::kAcces);
  remove(root(), "f");
  EXPECT_EQ(link(file.handle, d, "x"), NfsStatus::kStale);
}

}  // namespace
}  // namespace slice::dirserver::testing
