#include "dirserver/testing/fixture.h"

namespace slice::dirserver::testing {
namespace {

using ReadlinkTest = DirectoryFixture;

TEST_F(ReadlinkTest, GivesTheTextBack) {
  std::string target = "../some where/\xc3\xa4";
  Made made = symlink(root(), "l", target);
  ASSERT_EQ(made.status, NfsStatus::kOk);
  nfs3::ReadlinkOk ok;
  ASSERT_EQ(call(Procedure::kReadlink, nfs3::HandleView(made.handle), ok), NfsStatus::kOk);
  EXPECT_EQ(ok.target, target);
  EXPECT_EQ(ok.attributes->size, target.size());
  restart();
  ASSERT_EQ(call(Procedure::kReadlink, nfs3::HandleView(made.handle), ok), NfsStatus::kOk);
  EXPECT_EQ(ok.target, target);
}

TEST_F(ReadlinkTest, OnlyOfSymbolicLinks) {
  nfs3::ReadlinkOk ok;
  EXPECT_EQ(call(Procedure::kReadlink, nfs3::HandleView(create(root(), "f").handle), ok), NfsStatus::kInval);
  EXPECT_EQ(call(Procedure::kReadlink, nfs3::HandleView(root()), ok), NfsStatus::kInval);
}

}  // namespace
}  // namespace slice::dirserver::testing
