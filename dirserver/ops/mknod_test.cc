#include "dirserver/testing/fixture.h"

namespace slice::dirserver::testing {
namespace {

using MknodTest = DirectoryFixture;

TEST_F(MknodTest, DevicesAreForTheSuperuser) {
  Made device = mknod(root(), "dev", nfs3::FileType::kBlock);
  ASSERT_EQ(device.status, NfsStatus::kOk);
  EXPECT_EQ(device.attributes.rdev_major, 7u);
  EXPECT_EQ(device.attributes.rdev_minor, 8u);
  Handle open = mkdir(root(), "open", {}, 0777).handle;
  EXPECT_EQ(mknod(open, "dev", nfs3::FileType::kCharacter, {.uid = 9, .gid = 9}).status, NfsStatus::kPerm);
  EXPECT_EQ(mknod(open, "fifo", nfs3::FileType::kFifo, {.uid = 9, .gid = 9}).status, NfsStatus::kOk);
  EXPECT_EQ(mknod(open, "socket", nfs3::FileType::kSocket, {.uid = 9, .gid = 9}).status, NfsStatus::kOk);
}

TEST_F(MknodTest, OtherTypesHaveProceduresOfTheirOwn) {
  EXPECT_EQ(mknod(root(), "x", nfs3::FileType::kRegular).status, NfsStatus::kBadType);
  EXPECT_EQ(mknod(root(), "x", nfs3::FileType::kDirectory).status, NfsStatus::kBadType);
  create(root(), "there");
  EXPECT_EQ(mknod(root(), "there", nfs3::FileType::kFifo).status, NfsStatus::kExist);
}

}  // namespace
}  // namespace slice::dirserver::testing
