#include <set>

#include "dirserver/testing/fixture.h"

namespace slice::dirserver::testing {
namespace {

using CreateTest = DirectoryFixture;
using nfs3::CreateMode;

TEST_F(CreateTest, MakesAFileAndTellsTheDirectoryTruly) {
  nfs3::Attributes before = attributes(root());
  loop_.advance(std::chrono::milliseconds(5));
  Made made = create(root(), "f", {.uid = 0, .gid = 3}, 0644);
  ASSERT_EQ(made.status, NfsStatus::kOk);
  EXPECT_EQ(made.attributes.type, nfs3::FileType::kRegular);
  EXPECT_EQ(made.attributes.mode, 0644u);
  EXPECT_EQ(made.attributes.gid, 3u);
  EXPECT_EQ(made.attributes.nlink, 1u);
  EXPECT_EQ(made.attributes.size, 0u);
  ASSERT_TRUE(made.directory.before && made.directory.after);
  EXPECT_EQ(made.directory.before->ctime, before.ctime);
  EXPECT_EQ(made.directory.before->mtime, before.mtime);
  EXPECT_GT(made.directory.after->mtime, before.mtime);
  EXPECT_EQ(made.directory.after->ctime, attributes(root()).ctime);
}

TEST_F(CreateTest, TwoChangesAtOneMomentAreToldApart) {
  Made first = create(root(), "a"), second = create(root(), "b");
  EXPECT_LT(first.directory.after->ctime, second.directory.after->ctime);
  EXPECT_EQ(first.directory.after->ctime, second.directory.before->ctime);
}

TEST_F(CreateTest, GuardedRefusesAnExistingName) {
  create(root(), "f");
  Made again = create(root(), "f");
  EXPECT_EQ(again.status, NfsStatus::kExist);
  EXPECT_TRUE(again.directory.before && again.directory.after);
}

TEST_F(CreateTest, UncheckedTakesAnExistingFileAsItIs) {
  Made first = create(root(), "f", {}, 0600);
  Made again = create(root(), "f", {}, 0777, CreateMode::kUnchecked);
  EXPECT_EQ(again.status, NfsStatus::kOk);
  EXPECT_EQ(again.handle, first.handle);
  EXPECT_EQ(again.attributes.mode, 0600u);
  mkdir(root(), "d");
  EXPECT_EQ(create(root(), "d", {}, 0644, CreateMode::kUnchecked).status, NfsStatus::kExist);
}

TEST_F(CreateTest, UncheckedWithSizeZeroTruncates) {
  Made first = create(root(), "f");
  merge(first.handle, 5000, 0);
  ASSERT_EQ(attributes(first.handle).size, 5000u);
  Made again = create(root(), "f", {}, 0644, CreateMode::kUnchecked, 0);
  ASSERT_EQ(again.status, NfsStatus::kOk);
  EXPECT_EQ(again.handle, first.handle);
  EXPECT_EQ(again.attributes.size, 0u);
  ASSERT_EQ(small_.asked.size(), 1u);
  EXPECT_EQ(small_.asked[0], (FakeDataServer::Asked{false, first.attributes.fileid.value, 0, Epoch{1}}));
  Handle theirs = mkdir(root(), "d", {}, 0777).handle;
  create(theirs, "root's", {}, 0644);
  EXPECT_EQ(create(theirs, "root's", {.uid = 4, .gid = 4}, 0644, CreateMode::kUnchecked, 0).status,
            NfsStatus::kAcces);
}

// A crash in the middle: the file that was chosen is cut before its name may be given to another.
TEST_F(CreateTest, TheFileThatIsCutIsChosenOnce) {
  Made first = create(root(), "f");
  Handle other = create(root(), "other").handle;
  merge(first.handle, 5000, 0);
  merge(other, 5000, 0);
  small_.takes = std::chrono::seconds(2);
  Handle directory = root();
  nfs3::CreateArgs args{.where = {directory, "f"}, .mode = CreateMode::kUnchecked};
  args.attributes.size = 0;
  auto lost = send(Procedure::kCreate, args, {}, 77);
  loop_.advance(std::chrono::seconds(1));
  ASSERT_FALSE(lost->ended);
  restart();
  auto replaced = send(Procedure::kRename, nfs3::RenameArgs{{directory, "other"}, {directory, "f"}});
  datagrams_ = true;
  auto early = send(Procedure::kCreate, args, {}, 77);
  datagrams_ = false;
  loop_.advance(std::chrono::seconds(1));
  EXPECT_FALSE(replaced->ended);
  EXPECT_TRUE(early->ended && !early->reply) << "in progress";
  loop_.advance(std::chrono::seconds(9));
  ASSERT_TRUE(replaced->ended);
  rpc::XdrReader in(wait(send(Procedure::kCreate, args, {}, 77)));
  NfsStatus status = NfsStatus::kServerFault;
  nfs3::CreatedOk ok;
  ASSERT_TRUE(nfs3::decode_result(in, status, ok));
  EXPECT_EQ(status, NfsStatus::kOk);
  EXPECT_TRUE(std::equal(ok.object->begin(), ok.object->end(), first.handle.begin(), first.handle.end()));
  EXPECT_EQ(lookup(root(), "f").handle, other);
  EXPECT_EQ(attributes(other).size, 5000u);
  restart();
  EXPECT_EQ(lookup(root(), "f").handle, other) << "and it is not done again";
  EXPECT_EQ(attributes(other).size, 5000u);
}

// Who waits for a file with a name in its hands takes the file's lock; the cut to come needs it free.
TEST_F(CreateTest, AFileThatIsCutIsNotHeldByItsOwnCreate) {
  Made first = create(root(), "f");
  merge(first.handle, 5000, 0);
  const wire::TransactionName id{SiteId{1}, 1, 1};
  auto locked = peer<wire::LockResult>(wire::DirectoryProcedure::kLock, lock_of(first.handle, id));
  ASSERT_EQ(locked.status, wire::PeerStatus::kOk);
  Handle directory = root();
  nfs3::CreateArgs args{.where = {directory, "f"}, .mode = CreateMode::kUnchecked};
  args.attributes.size = 0;
  auto cutting = send(Procedure::kCreate, args);
  loop_.advance(std::chrono::milliseconds(100));
  EXPECT_FALSE(cutting->ended) << "the file is to be changed by another";
  give_up(id);
  loop_.advance(std::chrono::seconds(1));
  ASSERT_TRUE(cutting->ended);
  EXPECT_EQ(attributes(first.handle).size, 0u);
  EXPECT_EQ(remove(root(), "f"), NfsStatus::kOk) << "and nothing is held any more";
}

TEST_F(CreateTest, ANewFileMayHaveASizeAtOnce) {
  Made made = create(root(), "f", {}, 0644, CreateMode::kUnchecked, 12345);
  EXPECT_EQ(made.attributes.size, 12345u);
  EXPECT_TRUE(small_.asked.empty());
}

TEST_F(CreateTest, ExclusiveKnowsItsOwnRetransmission) {
  Made first = create_exclusive(root(), "f", 0x1122334455667788);
  ASSERT_EQ(first.status, NfsStatus::kOk);
  Made again = create_exclusive(root(), "f", 0x1122334455667788);  // with a new xid
  EXPECT_EQ(again.status, NfsStatus::kOk);
  EXPECT_EQ(again.handle, first.handle);
  // All eight bytes count.
  Made other = create_exclusive(root(), "f", 0x1122334455667789);
  EXPECT_EQ(other.status, NfsStatus::kExist);
  EXPECT_TRUE(other.directory.before.has_value());
  EXPECT_EQ(create_exclusive(root(), "f", 0x0022334455667788).status, NfsStatus::kExist);
}

TEST_F(CreateTest, ExclusiveSurvivesACrashAndEndsWithTheFirstSetattr) {
  Made first = create_exclusive(root(), "f", 42);
  restart();
  EXPECT_EQ(create_exclusive(root(), "f", 42).status, NfsStatus::kOk);
  nfs3::SetAttributes set;
  set.mode = 0644;
  ASSERT_EQ(setattr(first.handle, set), NfsStatus::kOk);
  EXPECT_EQ(create_exclusive(root(), "f", 42).status, NfsStatus::kExist);
}

TEST_F(CreateTest, PermissionAndNames) {
  EXPECT_EQ(create(root(), "f", {.uid = 5, .gid = 5}).status, NfsStatus::kAcces);
  EXPECT_EQ(create(root(), ".").status, NfsStatus::kExist);
  EXPECT_EQ(create(root(), "..").status, NfsStatus::kExist);
  EXPECT_EQ(create(root(), "").status, NfsStatus::kInval);
  EXPECT_EQ(create(root(), "a/b").status, NfsStatus::kInval);
  EXPECT_EQ(create(root(), std::string(255, 'x')).status, NfsStatus::kOk);
  EXPECT_EQ(create(root(), std::string(256, 'x')).status, NfsStatus::kNameTooLong);
  EXPECT_EQ(create(create(root(), "f").handle, "x").status, NfsStatus::kNotDir);
}

TEST_F(CreateTest, OwnersAndTheSetGroupIdBit) {
  Handle shared = mkdir(root(), "shared", {}, 0777).handle;
  nfs3::SetAttributes set;
  set.gid = 50;
  set.mode = 02777;
  ASSERT_EQ(setattr(shared, set), NfsStatus::kOk);
  Made file = create(shared, "f", {.uid = 5, .gid = 6}, 02755);
  EXPECT_EQ(file.attributes.uid, 5u);
  EXPECT_EQ(file.attributes.gid, 50u);
  EXPECT_EQ(file.attributes.mode, 0755u);  // not in the group: no set-group-id program
  EXPECT_EQ(create(shared, "g", {.uid = 5, .gid = 6, .groups = {50}}, 02755).attributes.mode, 02755u);
  Made directory = mkdir(shared, "d", {.uid = 5, .gid = 6}, 0755);
  EXPECT_EQ(directory.attributes.gid, 50u);
  EXPECT_EQ(directory.attributes.mode, 02755u);
  // Only the superuser makes files of others.
  nfs3::CreateArgs args{.where = {shared, "theirs"}};
  args.attributes.uid = 77;
  nfs3::CreatedOk ok;
  ASSERT_EQ(call(Procedure::kCreate, args, ok, {.uid = 5, .gid = 6}), NfsStatus::kOk);
  EXPECT_EQ(ok.attributes->uid, 5u);
  args.where.name = "given";
  ASSERT_EQ(call(Procedure::kCreate, args, ok, {}), NfsStatus::kOk);
  EXPECT_EQ(ok.attributes->uid, 77u);
}

TEST_F(CreateTest, TimesOfTheClientAreCheckedAndKept) {
  Handle directory = root();
  nfs3::CreateArgs args{.where = {directory, "f"}, .mode = CreateMode::kUnchecked};
  args.attributes.set_mtime = nfs3::SetAttributes::TimeHow::kClientTime;
  args.attributes.mtime = {100, 1'000'000'000};
  nfs3::CreatedOk ok;
  EXPECT_EQ(call(Procedure::kCreate, args, ok), NfsStatus::kInval);
  args.attributes.mtime = {100, 999'999'999};
  ASSERT_EQ(call(Procedure::kCreate, args, ok), NfsStatus::kOk);
  EXPECT_EQ(ok.attributes->mtime, (nfs3::Time{100, 999'999'999}));
}

TEST_F(CreateTest, LittleSpaceRefusesNewNamesButNotRemovals) {
  create(root(), "old");
  disk_.set_capacity(self_.reserve_bytes / 2);
  loop_.advance(std::chrono::seconds(2));
  EXPECT_EQ(create(root(), "f").status, NfsStatus::kNoSpc);
  EXPECT_EQ(mkdir(root(), "d").status, NfsStatus::kNoSpc);
  EXPECT_EQ(symlink(root(), "l", "t").status, NfsStatus::kNoSpc);
  EXPECT_EQ(remove(root(), "old"), NfsStatus::kOk);
  disk_.set_capacity(std::uint64_t{1} << 40);
  loop_.advance(std::chrono::seconds(2));
  EXPECT_EQ(create(root(), "f").status, NfsStatus::kOk);
}

TEST_F(CreateTest, AStoreWithoutSpaceRefusesCleanly) {
  store().set_no_space(true);
  EXPECT_EQ(create(root(), "f").status, NfsStatus::kNoSpc);
  EXPECT_EQ(lookup(root(), "f").status, NfsStatus::kNoEnt);
  store().set_no_space(false);
  Made made = create(root(), "f");
  EXPECT_EQ(made.status, NfsStatus::kOk);
  EXPECT_EQ(lookup(root(), "f").handle, made.handle);
}

TEST_F(CreateTest, AFailedSyncIsAnErrorAndNothingIsTakenAfterIt) {
  store().fail_next_sync();
  EXPECT_EQ(create(root(), "f").status, NfsStatus::kIo);
  EXPECT_EQ(create(root(), "g").status, NfsStatus::kIo);
  restart();
  EXPECT_EQ(lookup(root(), "f").status, NfsStatus::kNoEnt);
  EXPECT_EQ(create(root(), "g").status, NfsStatus::kOk);
}

TEST_F(CreateTest, FileIdsAreNeverReused) {
  std::set<std::uint64_t> seen{1};
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 600; ++i) {
      std::string name = std::to_string(round) + "-" + std::to_string(i);
      EXPECT_TRUE(seen.insert(create(root(), name).attributes.fileid.value).second);
      if (i % 3 == 0) remove(root(), name);
    }
    restart();
  }
}

}  // namespace
}  // namespace slice::dirserver::testing
