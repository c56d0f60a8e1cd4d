#include "dirserver/testing/fixture.h"

namespace slice::dirserver::testing {
namespace {

using SymlinkTest = DirectoryFixture;

TEST_F(SymlinkTest, TextOfAnyLegalLength) {
  EXPECT_EQ(symlink(root(), "longest", std::string(4095, 'x')).status, NfsStatus::kOk);
  EXPECT_EQ(symlink(root(), "empty", "").status, NfsStatus::kInval);
  EXPECT_EQ(symlink(root(), "longest", "x").status, NfsStatus::kExist);
}

TEST_F(SymlinkTest, IsOpenToAll) {
  Made made = symlink(root(), "l", "target");
  EXPECT_EQ(made.attributes.type, nfs3::FileType::kSymlink);
  EXPECT_EQ(made.attributes.mode, 0777u);
  EXPECT_EQ(symlink(root(), "mine", "target", {.uid = 7, .gid = 7}).status, NfsStatus::kAcces);
}

TEST_F(SymlinkTest, RemovingOneAsksNoDataServer) {
  symlink(root(), "l", "target");
  ASSERT_EQ(remove(root(), "l"), NfsStatus::kOk);
  loop_.advance(std::chrono::seconds(10));
  EXPECT_TRUE(small_.asked.empty());
}

}  // namespace
}  // namespace slice::dirserver::testing
