#include "dirserver/testing/fixture.h"

namespace slice::dirserver::testing {
namespace {

using ReaddirplusTest = DirectoryFixture;

TEST_F(ReaddirplusTest, GivesHandlesAndAttributes) {
  Made file = create(root(), "f", {}, 0640);
  Made directory = mkdir(root(), "d");
  Page page = readdirplus(root(), 0, {}, 4096, 8192);
  ASSERT_EQ(page.status, NfsStatus::kOk);
  ASSERT_EQ(page.entries.size(), 4u);
  for (const Listed& entry : page.entries) {
    ASSERT_TRUE(entry.attributes && entry.handle) << entry.name;
    EXPECT_EQ(entry.attributes->fileid, entry.fileid);
    if (entry.name == "f") {
      EXPECT_EQ(*entry.handle, file.handle);
      EXPECT_EQ(entry.attributes->mode, 0640u);
    }
    if (entry.name == "d") EXPECT_EQ(*entry.handle, directory.handle);
    if (entry.name == "..") EXPECT_EQ(*entry.handle, root());
  }
}

TEST_F(ReaddirplusTest, HonoursBothCounts) {
  for (int i = 0; i < 200; ++i) create(root(), "file-" + std::to_string(i));
  Page small_names = readdirplus(root(), 0, {}, 300, 60000);
  Page small_reply = readdirplus(root(), 0, {}, 60000, 2000);
  EXPECT_LT(small_names.entries.size(), 15u);
  EXPECT_GT(small_names.bytes, 1000u);  // attributes do not count for dircount
  EXPECT_LE(small_reply.bytes, 2004u);
  EXPECT_EQ(readdirplus(root(), 0, {}, 4096, 200).status, NfsStatus::kTooSmall);
}

TEST_F(ReaddirplusTest, WithoutSearchPermissionOnlyNames) {
  Handle listed = mkdir(root(), "listed", {}, 0744).handle;
  create(listed, "f");
  Page page = readdirplus(listed, 0, {}, 4096, 8192, {.uid = 4, .gid = 4});
  ASSERT_EQ(page.status, NfsStatus::kOk);
  ASSERT_EQ(page.entries.size(), 3u);
  for (const Listed& entry : page.entries) EXPECT_FALSE(entry.handle || entry.attributes);
}

TEST_F(ReaddirplusTest, WaitsForWhatItShows) {
  Handle file = create(root(), "f").handle;
  store().hold_syncs(true);
  nfs3::SetAttributes set;
  set.mode = 0600;
  send(Procedure::kSetattr, nfs3::SetattrArgs{.object = file, .attributes = set});
  auto plus = send(Procedure::kReaddirplus, nfs3::ReaddirplusArgs{root(), 0, {}, 4096, 8192});
  auto plain = send(Procedure::kReaddir, nfs3::ReaddirArgs{root(), 0, {}, 4096});
  loop_.advance(std::chrono::seconds(1));
  EXPECT_FALSE(plus->ended);
  EXPECT_TRUE(plain->ended);  // shows names alone, and none has changed
  store().hold_syncs(false);
  loop_.advance(std::chrono::seconds(1));
  EXPECT_TRUE(plus->ended);
}

}  // namespace
}  // namespace slice::dirserver::testing
