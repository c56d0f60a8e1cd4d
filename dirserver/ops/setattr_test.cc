#include "dirserver/testing/fixture.h"

namespace slice::dirserver::testing {
namespace {

using SetattrTest = DirectoryFixture;
using TimeHow = nfs3::SetAttributes::TimeHow;

nfs3::SetAttributes with_mode(std::uint32_t mode) {
  nfs3::SetAttributes set;
  set.mode = mode;
  return set;
}
nfs3::SetAttributes with_owner(std::optional<std::uint32_t> uid, std::optional<std::uint32_t> gid) {
  nfs3::SetAttributes set;
  set.uid = uid;
  set.gid = gid;
  return set;
}

constexpr std::uint64_t kThreshold = 64 << 10;

TEST_F(SetattrTest, ModeIsTheOwners) {
  Credential owner{.uid = 10, .gid = 10}, other{.uid = 11, .gid = 11};
  Handle open = mkdir(root(), "open", {}, 0777).handle;
  Handle file = create(open, "f", owner).handle;
  nfs3::WccData wcc;
  nfs3::Attributes before = attributes(file);
  EXPECT_EQ(setattr(file, with_mode(0600), other, {}, &wcc), NfsStatus::kPerm);
  ASSERT_TRUE(wcc.before && wcc.after);
  EXPECT_EQ(setattr(file, with_mode(0600), owner, {}, &wcc), NfsStatus::kOk);
  EXPECT_EQ(wcc.before->ctime, before.ctime);
  EXPECT_GT(wcc.after->ctime, before.ctime);
  EXPECT_EQ(wcc.after->mtime, before.mtime);
  EXPECT_EQ(attributes(file).mode, 0600u);
  EXPECT_EQ(setattr(file, with_mode(0140777), {}), NfsStatus::kOk);  // type bits are not the client's to set
  EXPECT_EQ(attributes(file).mode, 0777u);
}

TEST_F(SetattrTest, SetGroupIdNeedsTheGroup) {
  Handle open = mkdir(root(), "open", {}, 0777).handle;
  Handle file = create(open, "f", {.uid = 10, .gid = 10}).handle;
  ASSERT_EQ(setattr(file, with_owner(std::nullopt, 20)), NfsStatus::kOk);
  ASSERT_EQ(setattr(file, with_mode(02755), {.uid = 10, .gid = 10}), NfsStatus::kOk);
  EXPECT_EQ(attributes(file).mode, 0755u);
  ASSERT_EQ(setattr(file, with_mode(02755), {.uid = 10, .gid = 10, .groups = {20}}), NfsStatus::kOk);
  EXPECT_EQ(attributes(file).mode, 02755u);
}

TEST_F(SetattrTest, OwnersGiveToTheirGroupsOnly) {
  Credential owner{.uid = 10, .gid = 10, .groups = {20}};
  Handle open = mkdir(root(), "open", {}, 0777).handle;
  Handle file = create(open, "f", owner).handle;
  EXPECT_EQ(setattr(file, with_owner(11, std::nullopt), owner), NfsStatus::kPerm);
  EXPECT_EQ(setattr(file, with_owner(10, std::nullopt), owner), NfsStatus::kOk);
  EXPECT_EQ(setattr(file, with_owner(std::nullopt, 20), owner), NfsStatus::kOk);
  EXPECT_EQ(setattr(file, with_owner(std::nullopt, 30), owner), NfsStatus::kPerm);
  EXPECT_EQ(setattr(file, with_owner(std::nullopt, 10), {.uid = 11, .gid = 10}), NfsStatus::kPerm);
  EXPECT_EQ(setattr(file, with_owner(11, 30)), NfsStatus::kOk);
  EXPECT_EQ(attributes(file).uid, 11u);
}

TEST_F(SetattrTest, AnotherOwnerTakesTheSetIdBits) {
  Handle file = create(root(), "f", {}, 06755).handle, directory = mkdir(root(), "d", {}, 02755).handle;
  Handle unexecutable = create(root(), "g", {}, 06644).handle;
  for (const Handle& each : {file, directory, unexecutable}) {
    ASSERT_EQ(setattr(each, with_owner(10, 10)), NfsStatus::kOk);
  }
  EXPECT_EQ(attributes(file).mode, 0755u);
  EXPECT_EQ(attributes(directory).mode, 02755u);
  EXPECT_EQ(attributes(unexecutable).mode, 02644u);  // mandatory locking's mark, not a program
}

TEST_F(SetattrTest, TimesOfServerAndClient) {
  Credential owner{.uid = 10, .gid = 10}, other{.uid = 11, .gid = 11};
  Handle open = mkdir(root(), "open", {}, 0777).handle;
  Handle file = create(open, "f", owner, 0666).handle;
  nfs3::SetAttributes set;
  set.set_mtime = TimeHow::kClientTime;
  set.mtime = {5, 6};
  EXPECT_EQ(setattr(file, set, other), NfsStatus::kPerm);
  EXPECT_EQ(setattr(file, set, owner), NfsStatus::kOk);
  EXPECT_EQ(attributes(file).mtime, (nfs3::Time{5, 6}));
  set.mtime.nanoseconds = 1'000'000'000;
  EXPECT_EQ(setattr(file, set, owner), NfsStatus::kInval);
  loop_.advance(std::chrono::seconds(5));
  nfs3::SetAttributes now;
  now.set_mtime = now.set_atime = TimeHow::kServerTime;
  now.mtime = {1, 1};                                    // what the client says does not count
  EXPECT_EQ(setattr(file, now, other), NfsStatus::kOk);  // who may write may touch
  EXPECT_EQ(attributes(file).mtime.seconds, static_cast<std::uint32_t>(loop_.wall().ns / 1'000'000'000));
  ASSERT_EQ(setattr(file, with_mode(0644), owner), NfsStatus::kOk);
  EXPECT_EQ(setattr(file, now, other), NfsStatus::kAcces);
}

TEST_F(SetattrTest, TheGuardComparesCtime) {
  Made file = create(root(), "f");
  nfs3::Time wrong{file.attributes.ctime.seconds, file.attributes.ctime.nanoseconds ^ 1};
  EXPECT_EQ(setattr(file.handle, with_mode(0600), {}, wrong), NfsStatus::kNotSync);
  EXPECT_EQ(attributes(file.handle).mode, 0644u);
  EXPECT_EQ(setattr(file.handle, with_mode(0600), {}, file.attributes.ctime), NfsStatus::kOk);
}

TEST_F(SetattrTest, NothingToSetChangesNothing) {
  Made file = create(root(), "f");
  EXPECT_EQ(setattr(file.handle, {}), NfsStatus::kOk);
  EXPECT_EQ(attributes(file.handle).ctime, file.attributes.ctime);
}

TEST_F(SetattrTest, SizeIsOfRegularFilesOnly) {
  EXPECT_EQ(truncate(root(), 0), NfsStatus::kIsDir);
  EXPECT_EQ(truncate(symlink(root(), "l", "t").handle, 0), NfsStatus::kInval);
  EXPECT_EQ(truncate(create(root(), "f").handle, ~std::uint64_t{0}), NfsStatus::kFbig);
  EXPECT_TRUE(small_.asked.empty());
}

TEST_F(SetattrTest, SizeCutsTheBytesBeforeItIsAnswered) {
  Made file = create(root(), "f");
  merge(file.handle, 3 * kThreshold, 0);
  small_.takes = std::chrono::seconds(2);
  nfs3::SetAttributes set;
  set.size = 1000;
  auto pending = send(Procedure::kSetattr, nfs3::SetattrArgs{.object = file.handle, .attributes = set});
  loop_.advance(std::chrono::seconds(1));
  EXPECT_FALSE(pending->ended);
  loop_.advance(std::chrono::seconds(2));
  ASSERT_TRUE(pending->ended);
  rpc::XdrReader in(wait(pending));
  NfsStatus status;
  nfs3::WccData wcc;
  ASSERT_TRUE(nfs3::decode_result(in, status, wcc));
  EXPECT_EQ(status, NfsStatus::kOk);
  EXPECT_EQ(wcc.before->size, 3 * kThreshold);
  EXPECT_EQ(wcc.after->size, 1000u);
  EXPECT_EQ(wcc.after->rdev_major, 1u);  // the new epoch
  ASSERT_EQ(small_.asked.size(), 1u);
  EXPECT_EQ(small_.asked[0], (FakeDataServer::Asked{false, file.attributes.fileid.value, 1000, Epoch{1}}));
}

// The tables here do not show yet that the file's small-file site has moved.
TEST_F(SetattrTest, SizeIsCutByTheServerThatHasTheSiteByNow) {
  Made file = create(root(), "f");
  merge(file.handle, 3 * kThreshold, 0);
  FakeDataServer owner(loop_, wire::kObjectProgram);
  small_.also = {add_server("small2", wire::Role::kSmallFile, owner)};
  ASSERT_EQ(truncate(file.handle, 1000), NfsStatus::kOk);
  ASSERT_EQ(owner.asked.size(), 1u);
  EXPECT_EQ(owner.asked[0], (FakeDataServer::Asked{false, file.attributes.fileid.value, 1000, Epoch{1}}));
  // One names the other: neither has done anything.
  owner.also = {config_.find("small1")->index};
  nfs3::SetAttributes set;
  set.size = 10;
  auto pending = send(Procedure::kSetattr, nfs3::SetattrArgs{.object = file.handle, .attributes = set});
  loop_.advance(std::chrono::seconds(1));
  EXPECT_FALSE(pending->ended);
  owner.also.clear();
  loop_.advance(std::chrono::seconds(5));
  EXPECT_TRUE(pending->ended);
  silence("small2");
}

TEST_F(SetattrTest, AStripedFileIsCutByItsCoordinator) {
  Made file = create(root(), "f");
  fetch(file.handle, true);
  ASSERT_EQ(truncate(file.handle, 5), NfsStatus::kOk);
  ASSERT_EQ(coordinator_.asked.size(), 1u);
  EXPECT_EQ(coordinator_.asked[0], (FakeDataServer::Asked{false, file.attributes.fileid.value, 5, Epoch{1}}));
  EXPECT_TRUE(small_.asked.empty());
}

TEST_F(SetattrTest, ADeadDataServerMakesTheClientWait) {
  Made file = create(root(), "f");
  silence("small1");
  nfs3::SetAttributes set;
  set.size = 7;
  auto pending =
      send(Procedure::kSetattr, nfs3::SetattrArgs{.object = file.handle, .attributes = set}, {}, 77);
  loop_.advance(std::chrono::seconds(60));
  EXPECT_FALSE(pending->ended);
  datagrams_ = true;
  auto again = send(Procedure::kSetattr, nfs3::SetattrArgs{.object = file.handle, .attributes = set}, {}, 77);
  loop_.advance(std::chrono::seconds(1));
  EXPECT_TRUE(again->ended);
  EXPECT_FALSE(again->reply.has_value());  // dropped: the first is under way
  serve("small1", small_);
  loop_.advance(std::chrono::seconds(10));
  EXPECT_TRUE(pending->ended);
  EXPECT_EQ(small_.asked.size(), 1u);
}

TEST_F(SetattrTest, AnUnfinishedTruncationIsFinishedAfterACrash) {
  Made file = create(root(), "f");
  merge(file.handle, 9000, 0);
  silence("small1");
  nfs3::SetAttributes set;
  set.size = 7;
  nfs3::SetattrArgs args{.object = file.handle, .attributes = set, .guard = attributes(file.handle).ctime};
  auto lost = send(Procedure::kSetattr, args, {}, 99);
  loop_.advance(std::chrono::seconds(3));
  restart();
  datagrams_ = true;
  auto again = send(Procedure::kSetattr, args, {}, 99);
  loop_.advance(std::chrono::seconds(3));
  EXPECT_TRUE(again->ended);
  EXPECT_FALSE(again->reply.has_value());
  serve("small1", small_);
  loop_.advance(std::chrono::seconds(10));
  ASSERT_EQ(small_.asked.size(), 1u);
  EXPECT_EQ(small_.asked[0], (FakeDataServer::Asked{false, file.attributes.fileid.value, 7, Epoch{1}}));
  // The retransmission gets the first answer, although the guard would not fit any more.
  rpc::XdrReader in(wait(send(Procedure::kSetattr, args, {}, 99)));
  NfsStatus status;
  nfs3::WccData wcc;
  ASSERT_TRUE(nfs3::decode_result(in, status, wcc));
  EXPECT_EQ(status, NfsStatus::kOk);
  EXPECT_EQ(wcc.before->size, 9000u);
  EXPECT_EQ(wcc.after->size, 7u);
  restart();
  loop_.advance(std::chrono::seconds(10));
  EXPECT_EQ(small_.asked.size(), 1u);  // and it is not done again
}

TEST_F(SetattrTest, OneWhoseFileIsRemovedMeanwhileIsAnsweredAfterACrash) {
  Made file = create(root(), "f");
  silence("small1");
  nfs3::SetAttributes set;
  set.size = 7;
  nfs3::SetattrArgs args{.object = file.handle, .attributes = set};
  send(Procedure::kSetattr, args, {}, 99);
  loop_.advance(std::chrono::seconds(1));
  EXPECT_EQ(attributes(file.handle).size, 7u);  // it had its effect
  EXPECT_EQ(remove(root(), "f"), NfsStatus::kOk);
  restart();
  serve("small1", small_);
  loop_.advance(std::chrono::seconds(10));
  rpc::XdrReader in(wait(send(Procedure::kSetattr, args, {}, 99)));
  NfsStatus status;
  nfs3::WccData wcc;
  ASSERT_TRUE(nfs3::decode_result(in, status, wcc));
  EXPECT_EQ(status, NfsStatus::kOk);
  ASSERT_FALSE(small_.asked.empty());
  EXPECT_TRUE(small_.asked.back().remove);  // the bytes are freed last
}

TEST_F(SetattrTest, TruncationsOfOneFileFollowOneAnother) {
  Made file = create(root(), "f");
  small_.takes = std::chrono::seconds(1);
  std::vector<std::shared_ptr<Pending>> all;
  for (std::uint64_t size : {30, 20, 10}) {
    nfs3::SetAttributes set;
    set.size = size;
    all.push_back(send(Procedure::kSetattr, nfs3::SetattrArgs{.object = file.handle, .attributes = set}));
  }
  for (auto& each : all) wait(each);
  ASSERT_EQ(small_.asked.size(), 3u);
  EXPECT_EQ(small_.asked[0].size, 30u);
  EXPECT_EQ(small_.asked[2].size, 10u);
  EXPECT_EQ(small_.asked[2].epoch, Epoch{3});
  EXPECT_EQ(attributes(file.handle).size, 10u);
}

TEST_F(SetattrTest, AFileRemovedWhileItIsCutIsGone) {
  Made file = create(root(), "f");
  silence("small1");
  nfs3::SetAttributes set;
  set.size = 7;
  auto pending = send(Procedure::kSetattr, nfs3::SetattrArgs{.object = file.handle, .attributes = set});
  loop_.advance(std::chrono::seconds(1));
  ASSERT_EQ(remove(root(), "f"), NfsStatus::kOk);
  loop_.advance(std::chrono::seconds(20));
  EXPECT_TRUE(pending->ended);
  serve("small1", small_);
  loop_.advance(std::chrono::seconds(20));
  ASSERT_FALSE(small_.asked.empty());
  EXPECT_TRUE(small_.asked.back().remove);
}

}  // namespace
}  // namespace slice::dirserver::testing
