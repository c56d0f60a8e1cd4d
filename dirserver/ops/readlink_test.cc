#include "dirserver/testing/fixture.h"

namespace slice::dirserver::testing {
namespace {

using ReadlinkTest = DirectoryFixture;

TEST_F(ReadlinkTest, GivesTheTextBack) {
  std::string target = "../some where/\xc3\xa4";
  Made made = symlink(root(), "l", target);
  ASSERT_EQ(made.status, Status::kOk);
  nfs3::ReadlinkOk ok;
  ASSERT_EQ(call(Procedure::kReadlink, nfs3::HandleView(made.handle), ok), Status::kOk);
  EXPECT_EQ(ok.target, target);
  EXPECT_EQ(ok.attributes->size, target.size());
  restart();
  ASSERT_EQ(call(Procedure::kReadlink, nfs3::HandleView(made.handle), ok), Status::kOk);
  EXPECT_EQ(ok.target, target);
}

TEST_F(ReadlinkTest, OnlyOfSymbolicLinks) {
  nfs3::ReadlinkOk ok;
  EXPECT_EQ(call(Procedure::kReadlink, nfs3::HandleView(create(root(), "f").handle), ok), Status::kInval);
  EXPECT_EQ(call(Procedure::kReadlink, nfs3::HandleView(root()), ok), Status::kInval);
}

}  // namespace
}  // namespace slice::dirserver::testing
