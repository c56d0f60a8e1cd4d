#include "dirserver/testing/fixture.h"

namespace slice::dirserver::testing {
namespace {

using LookupTest = DirectoryFixture;

TEST_F(LookupTest, FindsWhatWasCreated) {
  Made made = create(root(), "file", {}, 0640);
  Made found = lookup(root(), "file");
  EXPECT_EQ(found.status, NfsStatus::kOk);
  EXPECT_EQ(found.handle, made.handle);
  EXPECT_EQ(found.attributes.mode, 0640u);
  EXPECT_EQ(lookup(root(), "File").status, NfsStatus::kNoEnt);
}

TEST_F(LookupTest, DotAndDotDot) {
  Handle a = mkdir(root(), "a").handle;
  Handle b = mkdir(a, "b").handle;
  EXPECT_EQ(lookup(b, ".").handle, b);
  EXPECT_EQ(lookup(b, "..").handle, a);
  EXPECT_EQ(lookup(a, "..").handle, root());
  EXPECT_EQ(lookup(root(), "..").handle, root());
}

TEST_F(LookupTest, Names) {
  std::string longest(255, 'n');
  ASSERT_EQ(create(root(), longest).status, NfsStatus::kOk);
  EXPECT_EQ(lookup(root(), longest).status, NfsStatus::kOk);
  EXPECT_EQ(lookup(root(), longest + "n").status, NfsStatus::kNameTooLong);
  EXPECT_EQ(lookup(root(), "").status, NfsStatus::kInval);
  EXPECT_EQ(lookup(root(), "a/b").status, NfsStatus::kInval);
  ASSERT_EQ(create(root(), "\xff\xfe not utf-8 \x80").status, NfsStatus::kOk);
  EXPECT_EQ(lookup(root(), "\xff\xfe not utf-8 \x80").status, NfsStatus::kOk);
}

TEST_F(LookupTest, NeedsADirectoryThatMayBeSearched) {
  Handle file = create(root(), "file").handle;
  EXPECT_EQ(lookup(file, "x").status, NfsStatus::kNotDir);
  Handle closed = mkdir(root(), "closed", {}, 0744).handle;
  create(closed, "in");
  EXPECT_EQ(lookup(closed, "in", {.uid = 1000, .gid = 1000}).status, NfsStatus::kAcces);
  EXPECT_EQ(lookup(closed, "in").status, NfsStatus::kOk);
}

TEST_F(LookupTest, ANameWhoseRemovalIsNotDurableIsNotMissedYet) {
  create(root(), "f");
  store().hold_syncs(true);
  send(Procedure::kRemove, nfs3::DirOpArgs{root(), "f"});
  auto reader = send(Procedure::kLookup, nfs3::DirOpArgs{root(), "f"});
  loop_.advance(std::chrono::seconds(1));
  EXPECT_FALSE(reader->ended);
  store().hold_syncs(false);
  loop_.advance(std::chrono::seconds(1));
  EXPECT_TRUE(reader->ended);
}

TEST_F(LookupTest, ACorruptCellIsAnErrorAndOthersAreServed) {
  create(root(), "good");
  Made bad = create(root(), "bad");
  restart();  // nothing is cached
  auto handle = *handles_.open(bad.handle);
  corrupt(attribute_key(handle.directory_site, handle.fileid));
  EXPECT_EQ(lookup(root(), "bad").status, NfsStatus::kIo);
  EXPECT_EQ(lookup(root(), "good").status, NfsStatus::kOk);
}

}  // namespace
}  // namespace slice::dirserver::testing
