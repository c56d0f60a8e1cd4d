#include <gtest/gtest.h>

#include "smallfile/testing/server_fixture.h"

namespace slice::smallfile {
namespace {

using std::chrono::milliseconds;
using CommitTest = SmallFileServerTest;

TEST_F(CommitTest, TellsTheAuthorityAtOnce) {
  make_file(2);
  ASSERT_EQ(write(hinted(2), 0, "committed").status, NfsStatus::kOk);
  EXPECT_EQ(authority.attributes({2}).size, 0u);
  auto [status, ok] = commit(mint(handle_of(2)));
  EXPECT_EQ(status, NfsStatus::kOk);
  EXPECT_EQ(ok.verifier, verifier_.largest());
  EXPECT_FALSE(ok.wcc.after) << "no proxy fills it";
  EXPECT_EQ(authority.attributes({2}).size, 9u);
  EXPECT_GT(authority.attributes({2}).mtime, (nfs3::Time{100, 0}));
}

TEST_F(CommitTest, OfOneFileTellsNothingOfAnother) {
  make_file(1);
  make_file(2);
  ASSERT_EQ(write(hinted(1), 0, "lazy").status, NfsStatus::kOk);
  ASSERT_EQ(write(hinted(2), 0, "committed").status, NfsStatus::kOk);
  EXPECT_EQ(commit(mint(handle_of(2))).first, NfsStatus::kOk);
  EXPECT_EQ(authority.attributes({1}).size, 0u);
}

TEST_F(CommitTest, WhatItCoversOutlivesACrash) {
  make_file(1);
  ASSERT_EQ(write(hinted(1), 0, "unstable").status, NfsStatus::kOk);
  ASSERT_EQ(commit(hinted(1)).first, NfsStatus::kOk);
  disk_.crash(storage::MemoryDisk::Crash::kDropUnsynced);
  stop_server();
  start_server();
  EXPECT_EQ(read(mint(handle_of(1)), 0, 100).data, "unstable");
}

TEST_F(CommitTest, OfNothingIsDone) {
  make_file(1);
  auto [status, ok] = commit(hinted(1));
  EXPECT_EQ(status, NfsStatus::kOk);
  EXPECT_EQ(ok.verifier, verifier_.largest());
  EXPECT_EQ(authority.merges, 0u);
}

TEST_F(CommitTest, RoomGoesToThoseThatCanFillItWithTheEpoch) {
  make_file(1);
  ASSERT_EQ(truncate(1, 0, 9), NfsStatus::kOk);
  auto written = write(hinted(1), 10, "xyz");
  auto committed = commit(hinted(1)).second;
  ASSERT_TRUE(committed.wcc.after);
  EXPECT_EQ(committed.wcc.after->size, 13u);
  EXPECT_EQ(committed.wcc.after->rdev_major, 9u);
  EXPECT_EQ(committed.wcc.after->nlink, 0u);
  EXPECT_EQ(committed.wcc.after->used, 0u) << "nothing was written by it";
  ASSERT_TRUE(written.ok.wcc.after);
  EXPECT_EQ(committed.wcc.after->mtime, written.ok.wcc.after->mtime);
}

TEST_F(CommitTest, NeedsWhatWriteNeeds) {
  make_file(1, 0640);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(hinted(1), 0, "unstable").status, NfsStatus::kOk);
  EXPECT_EQ(commit(handle, 2000).first, NfsStatus::kAcces);
  EXPECT_EQ(authority.attributes({1}).size, 0u) << "it made the server work";
  authority.attributes({1}).mode = 0642;
  EXPECT_EQ(commit(handle, 2000).first, NfsStatus::kOk) << "a permission counts as soon as it is given";
  // The owner may always: the file may have been open before a chmod.
  authority.attributes({1}).mode = 0;
  loop_.advance(milliseconds(2100));
  EXPECT_EQ(commit(handle, 2000).first, NfsStatus::kAcces);
  EXPECT_EQ(commit(handle).first, NfsStatus::kOk);
}

TEST_F(CommitTest, OfWhatIsNoRegularFile) {
  make_file(1);
  EXPECT_EQ(commit(mint(handle_of(1, nfs3::FileType::kDirectory))).first, NfsStatus::kIsDir);
  EXPECT_EQ(commit(mint(handle_of(1, nfs3::FileType::kSymlink))).first, NfsStatus::kInval);
}

TEST_F(CommitTest, OfARemovedFileIsStale) {
  make_file(1);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, "x").status, NfsStatus::kOk);
  authority.remove({1});
  ASSERT_EQ(remove_here(1), NfsStatus::kOk);
  EXPECT_EQ(commit(handle).first, NfsStatus::kStale);
}

TEST_F(CommitTest, IsNotAnsweredWhileTheAuthorityCannotBeTold) {
  make_file(1);
  ASSERT_EQ(write(hinted(1), 0, "unstable").status, NfsStatus::kOk);
  silence("dir1");
  EXPECT_EQ(commit(hinted(1)).first, NfsStatus::kJukebox);
  serve("dir1", authority);
  EXPECT_EQ(commit(hinted(1)).first, NfsStatus::kOk);
  EXPECT_EQ(authority.attributes({1}).size, 8u);
}

// The proxy sends COMMIT here when it believes that the file ends below the threshold. When it has lost sight
// of bytes above, they must not be taken for committed.
TEST_F(CommitTest, OfAFileWithStripesIsPassedToTheCoordinator) {
  FakeCoordinator coordinator;
  serve("coord1", coordinator);
  make_file(1);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, "below").status, NfsStatus::kOk);
  EXPECT_EQ(commit(handle).second.verifier, verifier_.largest());
  EXPECT_EQ(coordinator.commits, 0);
  // A storage node took its first bytes; what is cached here says otherwise.
  authority.file({1}).striped = true;
  auto passed = commit(handle);
  EXPECT_EQ(passed.first, NfsStatus::kOk);
  EXPECT_EQ(passed.second.verifier, Verifier{77});
  EXPECT_EQ(coordinator.commits, 1);
  ASSERT_EQ(write(handle, 0, "again").status, NfsStatus::kOk);
  EXPECT_EQ(commit(handle).second.verifier, Verifier{77});
  EXPECT_EQ(metrics_.counter("smallfile_commits_passed_on_total").value(), 2u);
  silence("coord1");
}

// So that what a storage node takes while this server is about its own bytes is covered, too.
TEST_F(CommitTest, OfAFileThatGetsStripesMeanwhileIsPassedToTheCoordinator) {
  FakeCoordinator coordinator;
  serve("coord1", coordinator);
  make_file(1);
  ASSERT_EQ(write(hinted(1), 0, "below").status, NfsStatus::kOk);
  authority.merge_delay = milliseconds(10);
  loop_.after(milliseconds(5), [&] { authority.file({1}).striped = true; });
  EXPECT_EQ(commit(hinted(1)).second.verifier, Verifier{77});
  EXPECT_EQ(authority.attributes({1}).size, 5u) << "its own bytes come first";
  EXPECT_EQ(coordinator.commits, 1);
  silence("coord1");
}

TEST_F(CommitTest, TheCoordinatorsRefusalIsPassedOn) {
  FakeCoordinator coordinator;
  coordinator.status = NfsStatus::kIo;
  serve("coord1", coordinator);
  make_file(1);
  authority.file({1}).striped = true;
  EXPECT_EQ(commit(mint(handle_of(1))).first, NfsStatus::kIo);
  EXPECT_EQ(coordinator.commits, 1);
  silence("coord1");
  EXPECT_EQ(commit(mint(handle_of(1))).first, NfsStatus::kJukebox) << "it will be there again";
}

}  // namespace
}  // namespace slice::smallfile
