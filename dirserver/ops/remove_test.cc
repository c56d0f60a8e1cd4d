#include <set>

#include "dirserver/testing/fixture.h"

namespace slice::dirserver::testing {
namespace {

using RemoveTest = DirectoryFixture;

TEST_F(RemoveTest, TakesTheNameAndThenTheFile) {
  Made file = create(root(), "f");
  ASSERT_EQ(link(file.handle, root(), "g"), NfsStatus::kOk);
  nfs3::WccData wcc;
  ASSERT_EQ(remove(root(), "f", {}, &wcc), NfsStatus::kOk);
  EXPECT_TRUE(wcc.before && wcc.after);
  EXPECT_LT(wcc.before->mtime, wcc.after->mtime);
  EXPECT_EQ(attributes(file.handle).nlink, 1u);
  ASSERT_EQ(remove(root(), "g"), NfsStatus::kOk);
  EXPECT_EQ(getattr(file.handle), NfsStatus::kStale);
  EXPECT_EQ(remove(root(), "g"), NfsStatus::kNoEnt);
  EXPECT_TRUE(names(root()).empty());
}

TEST_F(RemoveTest, IsNotForDirectories) {
  mkdir(root(), "d");
  EXPECT_EQ(remove(root(), "d"), NfsStatus::kIsDir);
  EXPECT_EQ(remove(root(), "."), NfsStatus::kInval);
  EXPECT_EQ(remove(root(), ".."), NfsStatus::kInval);
  EXPECT_EQ(remove(root(), std::string(256, 'x')), NfsStatus::kNameTooLong);
}

TEST_F(RemoveTest, PermissionAndStickyBit) {
  Credential owner{.uid = 10, .gid = 10}, other{.uid = 11, .gid = 11};
  Handle open = mkdir(root(), "open", {}, 0777).handle;
  create(open, "a", owner);
  EXPECT_EQ(remove(open, "a", other), NfsStatus::kOk);
  Handle sticky = mkdir(root(), "sticky", {}, 01777).handle;
  create(sticky, "a", owner);
  EXPECT_EQ(remove(sticky, "a", other), NfsStatus::kPerm);
  EXPECT_EQ(remove(sticky, "a", owner), NfsStatus::kOk);
  create(sticky, "b", owner);
  EXPECT_EQ(remove(sticky, "b"), NfsStatus::kOk);
  Handle closed = mkdir(root(), "closed", {}, 0755).handle;
  create(closed, "a");
  EXPECT_EQ(remove(closed, "a", other), NfsStatus::kAcces);
}

TEST_F(RemoveTest, TheSmallFileServerFreesTheBytes) {
  Made file = create(root(), "f");
  ASSERT_EQ(remove(root(), "f"), NfsStatus::kOk);
  loop_.advance(std::chrono::seconds(1));
  ASSERT_EQ(small_.asked.size(), 1u);
  EXPECT_EQ(small_.asked[0], (FakeDataServer::Asked{true, file.attributes.fileid.value, 0, Epoch{}}));
  EXPECT_TRUE(coordinator_.asked.empty());
}

TEST_F(RemoveTest, TheCoordinatorFreesAStripedFile) {
  Made file = create(root(), "f");
  EXPECT_TRUE(fetch(file.handle, true).striped);
  ASSERT_EQ(remove(root(), "f"), NfsStatus::kOk);
  loop_.advance(std::chrono::seconds(1));
  ASSERT_EQ(coordinator_.asked.size(), 1u);
  EXPECT_EQ(coordinator_.asked[0], (FakeDataServer::Asked{true, file.attributes.fileid.value, 0, Epoch{}}));
  EXPECT_TRUE(small_.asked.empty());
}

TEST_F(RemoveTest, AnswersWithoutTheDataServerAndReclaimsWhenItIsBack) {
  silence("small1");
  create(root(), "f");
  ASSERT_EQ(remove(root(), "f"), NfsStatus::kOk);
  loop_.advance(std::chrono::seconds(30));
  serve("small1", small_);
  loop_.advance(std::chrono::seconds(10));
  EXPECT_EQ(small_.asked.size(), 1u);
}

// The queue is read from the store once at the start, where a removal's record is before it is durable.
TEST_F(RemoveTest, NoBytesGoForARemovalThatACrashMayUndo) {
  Made file = create(root(), "f");
  restart();
  store().hold_syncs(true);
  Handle directory = root();
  auto removed = send(Procedure::kRemove, nfs3::DirOpArgs{directory, "f"});
  loop_.advance(std::chrono::seconds(1));
  EXPECT_FALSE(removed->ended);
  EXPECT_TRUE(small_.asked.empty());
  restart();
  EXPECT_EQ(lookup(root(), "f").handle, file.handle);
  ASSERT_EQ(remove(root(), "f"), NfsStatus::kOk);
  loop_.advance(std::chrono::seconds(1));
  EXPECT_EQ(small_.asked.size(), 1u);
}

TEST_F(RemoveTest, TheReclaimQueueSurvivesACrash) {
  silence("small1");
  std::set<std::uint64_t> files;
  for (int i = 0; i < 100; ++i) {
    files.insert(create(root(), std::to_string(i)).attributes.fileid.value);
    ASSERT_EQ(remove(root(), std::to_string(i)), NfsStatus::kOk);
  }
  restart();
  serve("small1", small_);
  loop_.advance(std::chrono::seconds(30));
  std::set<std::uint64_t> freed;
  for (const auto& asked : small_.asked) freed.insert(asked.file);
  EXPECT_EQ(freed, files);
  std::size_t before = small_.asked.size();
  loop_.advance(std::chrono::seconds(5));
  restart();
  loop_.advance(std::chrono::seconds(30));
  EXPECT_EQ(small_.asked.size(), before);  // records of what was freed are gone
}

TEST_F(RemoveTest, ADataServerThatFailsIsAskedAgain) {
  small_.answer = NfsStatus::kIo;
  create(root(), "f");
  ASSERT_EQ(remove(root(), "f"), NfsStatus::kOk);
  loop_.advance(std::chrono::seconds(5));
  EXPECT_GE(small_.refused, 2u);
  EXPECT_LE(small_.refused, 20u);  // with growing pauses
  small_.answer = NfsStatus::kOk;
  loop_.advance(std::chrono::seconds(10));
  EXPECT_EQ(small_.asked.size(), 1u);
}

}  // namespace
}  // namespace slice::dirserver::testing
