#include "dirserver/testing/fixture.h"

namespace slice::dirserver::testing {
namespace {

using RenameTest = DirectoryFixture;

TEST_F(RenameTest, WithinOneDirectoryAndBetweenTwo) {
  Handle a = mkdir(root(), "a").handle, b = mkdir(root(), "b").handle;
  Made file = create(a, "f");
  nfs3::RenameResult result;
  ASSERT_EQ(rename(a, "f", a, "g", {}, &result), NfsStatus::kOk);
  EXPECT_EQ(result.from.after->ctime, result.to.after->ctime);
  ASSERT_EQ(rename(a, "g", b, "h", {}, &result), NfsStatus::kOk);
  EXPECT_TRUE(result.from.before && result.to.before);
  EXPECT_TRUE(names(a).empty());
  Made found = lookup(b, "h");
  EXPECT_EQ(found.handle, file.handle);
  EXPECT_GT(found.attributes.ctime, file.attributes.ctime);
  EXPECT_EQ(found.attributes.mtime, file.attributes.mtime);
}

TEST_F(RenameTest, ReplacesAFileAndFreesIt) {
  Made old = create(root(), "old"), fresh = create(root(), "new");
  ASSERT_EQ(rename(root(), "new", root(), "old"), NfsStatus::kOk);
  EXPECT_EQ(lookup(root(), "old").handle, fresh.handle);
  EXPECT_EQ(getattr(old.handle), NfsStatus::kStale);
  EXPECT_EQ(names(root()), std::vector<std::string>{"old"});
  loop_.advance(std::chrono::seconds(1));
  ASSERT_EQ(small_.asked.size(), 1u);
  EXPECT_EQ(small_.asked[0].file, old.attributes.fileid.value);
}

TEST_F(RenameTest, OntoItselfOrAHardLinkOfItselfChangesNothing) {
  Made file = create(root(), "f");
  ASSERT_EQ(link(file.handle, root(), "g"), NfsStatus::kOk);
  nfs3::Attributes before = attributes(root());
  EXPECT_EQ(rename(root(), "f", root(), "f"), NfsStatus::kOk);
  EXPECT_EQ(rename(root(), "f", root(), "g"), NfsStatus::kOk);
  EXPECT_EQ(lookup(root(), "f").handle, file.handle);
  EXPECT_EQ(lookup(root(), "g").handle, file.handle);
  EXPECT_EQ(attributes(file.handle).nlink, 2u);
  EXPECT_EQ(attributes(root()).mtime, before.mtime);
}

TEST_F(RenameTest, DirectoriesTakeTheirParentAlong) {
  Handle a = mkdir(root(), "a").handle, b = mkdir(root(), "b").handle, d = mkdir(a, "d").handle;
  ASSERT_EQ(rename(a, "d", b, "d"), NfsStatus::kOk);
  EXPECT_EQ(lookup(d, "..").handle, b);
  EXPECT_EQ(attributes(a).nlink, 2u);
  EXPECT_EQ(attributes(b).nlink, 3u);
  Handle empty = mkdir(root(), "empty").handle;
  ASSERT_EQ(rename(b, "d", root(), "empty"), NfsStatus::kOk);
  EXPECT_EQ(lookup(root(), "empty").handle, d);
  EXPECT_EQ(getattr(empty), NfsStatus::kStale);
  EXPECT_EQ(attributes(root()).nlink, 5u);
  EXPECT_EQ(attributes(b).nlink, 2u);
}

TEST_F(RenameTest, NotIntoItsOwnDescendant) {
  Handle a = mkdir(root(), "a").handle, b = mkdir(a, "b").handle, c = mkdir(b, "c").handle;
  EXPECT_EQ(rename(root(), "a", a, "x"), NfsStatus::kInval);
  EXPECT_EQ(rename(root(), "a", c, "x"), NfsStatus::kInval);
  EXPECT_EQ(rename(b, "c", root(), "a"), NfsStatus::kNotEmpty);  // onto an ancestor
  EXPECT_EQ(lookup(b, "c").handle, c);
}

TEST_F(RenameTest, TypesMustFit) {
  Handle full = mkdir(root(), "full").handle;
  create(full, "f");
  mkdir(root(), "d");
  create(root(), "f");
  EXPECT_EQ(rename(root(), "d", root(), "full"), NfsStatus::kNotEmpty);
  EXPECT_EQ(rename(root(), "d", root(), "f"), NfsStatus::kNotDir);
  EXPECT_EQ(rename(root(), "f", root(), "d"), NfsStatus::kIsDir);
  EXPECT_EQ(rename(root(), "none", root(), "x"), NfsStatus::kNoEnt);
  EXPECT_EQ(rename(root(), ".", root(), "x"), NfsStatus::kInval);
  EXPECT_EQ(rename(root(), "f", root(), ".."), NfsStatus::kInval);
  EXPECT_EQ(rename(root(), "f", root(), std::string(256, 'x')), NfsStatus::kNameTooLong);
  Handle file = lookup(root(), "f").handle;
  EXPECT_EQ(rename(root(), "f", file, "x"), NfsStatus::kNotDir);
  Handle forged = full;
  forged[20] ^= 1;
  EXPECT_EQ(rename(root(), "f", forged, "x"), NfsStatus::kBadHandle);
}

TEST_F(RenameTest, Permission) {
  Credential owner{.uid = 10, .gid = 10}, other{.uid = 11, .gid = 11};
  Handle sticky = mkdir(root(), "sticky", {}, 01777).handle, open = mkdir(root(), "open", {}, 0777).handle;
  create(sticky, "f", owner);
  create(sticky, "g", other);
  EXPECT_EQ(rename(sticky, "f", sticky, "x", other), NfsStatus::kPerm);
  EXPECT_EQ(rename(sticky, "g", sticky, "f", other), NfsStatus::kPerm);
  EXPECT_EQ(rename(sticky, "f", root(), "f", owner), NfsStatus::kAcces);
  mkdir(open, "d", owner, 0555);
  // Its ".." would change, which needs write permission on the directory itself.
  EXPECT_EQ(rename(open, "d", sticky, "d", other), NfsStatus::kAcces);
  EXPECT_EQ(rename(open, "d", open, "e", other), NfsStatus::kOk);
}

// At every moment the file is there under one of its names.
TEST_F(RenameTest, ACrashLeavesTheOldNameOrTheNew) {
  Handle a = mkdir(root(), "a").handle, b = mkdir(root(), "b").handle;
  Made file = create(a, "f");
  for (int i = 0; i < 10; ++i) {
    store().hold_syncs(i % 2 == 0);
    send(Procedure::kRename, nfs3::RenameArgs{.from = {a, "f"}, .to = {b, "f"}});
    loop_.advance(std::chrono::seconds(1));
    restart();
    bool in_a = lookup(a, "f").status == NfsStatus::kOk, in_b = lookup(b, "f").status == NfsStatus::kOk;
    EXPECT_NE(in_a, in_b);
    EXPECT_EQ(in_a, i % 2 == 0);
    EXPECT_EQ(lookup(in_a ? a : b, "f").handle, file.handle);
    if (in_b) ASSERT_EQ(rename(b, "f", a, "f"), NfsStatus::kOk);
  }
}

}  // namespace
}  // namespace slice::dirserver::testing
