#include "dirserver/testing/fixture.h"

namespace slice::dirserver::testing {
namespace {

using GetattrTest = DirectoryFixture;

TEST_F(GetattrTest, OfTheRootAsConfigured) {
  nfs3::Attributes root_attributes = attributes(root());
  EXPECT_EQ(root_attributes.type, nfs3::FileType::kDirectory);
  EXPECT_EQ(root_attributes.mode, 0755u);
  EXPECT_EQ(root_attributes.nlink, 2u);
  EXPECT_EQ(root_attributes.fileid, FileId{1});
  EXPECT_EQ(root_attributes.fsid, 1u);
}

TEST_F(GetattrTest, RefusesForgedAndStaleHandles) {
  Handle forged = root();
  forged[8] ^= 1;
  EXPECT_EQ(getattr(forged), NfsStatus::kBadHandle);
  Handle file = create(root(), "f").handle;
  ASSERT_EQ(remove(root(), "f"), NfsStatus::kOk);
  EXPECT_EQ(getattr(file), NfsStatus::kStale);
}

TEST_F(GetattrTest, AHandleOfAnotherGenerationIsStale) {
  auto handle = *handles_.open(create(root(), "f").handle);
  ++handle.generation;
  EXPECT_EQ(getattr(handles_.mint(handle)), NfsStatus::kStale);
}

TEST_F(GetattrTest, DoesNotShowWhatIsNotDurableYet) {
  Handle file = create(root(), "f").handle;
  store().hold_syncs(true);
  nfs3::SetAttributes set;
  set.mode = 0600;
  auto change = send(Procedure::kSetattr, nfs3::SetattrArgs{.object = file, .attributes = set});
  loop_.advance(std::chrono::seconds(1));
  auto reader = send(Procedure::kGetattr, nfs3::HandleView(file));
  auto other = send(Procedure::kGetattr, nfs3::HandleView(root()));
  loop_.advance(std::chrono::seconds(1));
  EXPECT_FALSE(change->ended);
  EXPECT_FALSE(reader->ended);
  EXPECT_TRUE(other->ended);  // what is durable is shown without waiting
  store().hold_syncs(false);
  loop_.advance(std::chrono::seconds(1));
  EXPECT_TRUE(change->ended);
  EXPECT_TRUE(reader->ended);
}

TEST_F(GetattrTest, ARemovedFileIsNotStaleBeforeThatIsDurable) {
  Handle file = create(root(), "f").handle;
  store().hold_syncs(true);
  auto change = send(Procedure::kRemove, nfs3::DirOpArgs{root(), "f"});
  auto reader = send(Procedure::kGetattr, nfs3::HandleView(file));
  loop_.advance(std::chrono::seconds(1));
  EXPECT_FALSE(reader->ended);
  crash();
  restart();
  EXPECT_EQ(getattr(file), NfsStatus::kOk);
}

}  // namespace
}  // namespace slice::dirserver::testing
