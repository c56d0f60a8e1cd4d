#include <gtest/gtest.h>

#include "smallfile/testing/server_fixture.h"

namespace slice::smallfile {
namespace {

using std::chrono::milliseconds;
using WriteTest = SmallFileServerTest;

TEST_F(WriteTest, AnswersCountStabilityAndVerifier) {
  make_file(1);
  auto handle = mint(handle_of(1));
  auto written = write(handle, 0, "0123456789");
  ASSERT_EQ(written.status, NfsStatus::kOk);
  EXPECT_EQ(written.ok.count, 10u);
  EXPECT_EQ(written.ok.committed, nfs3::Stable::kUnstable);
  EXPECT_EQ(written.ok.verifier, verifier_.largest());
  EXPECT_FALSE(written.ok.wcc.after);  // no proxy to patch it: absent, not stale
  EXPECT_EQ(read(handle, 0, 100).data, "0123456789");
}

TEST_F(WriteTest, BeyondAQuotaOnlyWhatIsStoredAlready) {
  make_file(1);
  auto handle = mint(handle_of(1));
  Settings limited = *settings_.get();
  limited.quotas[{QuotaKind::kUser, 1000}].space.hard = 8192;
  settings_.set(std::move(limited));
  authority.room = 8192;
  EXPECT_EQ(write(handle, 0, std::string(4096, 'a')).status, NfsStatus::kOk);
  EXPECT_EQ(write(handle, 12288, std::string(4096, 'b')).status, NfsStatus::kOk);
  authority.room = 0;  // the authority was told of these
  EXPECT_EQ(write(handle, 4096, "c").status, NfsStatus::kDquot) << "the hole";
  EXPECT_EQ(write(handle, 16384, "c").status, NfsStatus::kDquot);
  EXPECT_EQ(write(handle, 8000, std::string(400, 'c')).status, NfsStatus::kDquot) << "in part";
  EXPECT_EQ(write(handle, 12300, "overwritten").status, NfsStatus::kOk);
  EXPECT_EQ(write(handle, 100, "overwritten").status, NfsStatus::kOk);
  EXPECT_EQ(read(handle, 12300, 11).data, "overwritten");
  EXPECT_EQ(metrics_.counter("quota_refused_writes_total").value(), 3u);
}

TEST_F(WriteTest, OverWhatIsThereAndBehindAHole) {
  make_file(1);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, "0123456789").status, NfsStatus::kOk);
  ASSERT_EQ(write(handle, 3, "xyz").status, NfsStatus::kOk);
  ASSERT_EQ(write(handle, 12, "end").status, NfsStatus::kOk);
  auto got = read(handle, 0, 100);
  EXPECT_EQ(got.data, std::string("012xyz6789\0\0end", 15));
  EXPECT_TRUE(got.eof);
}

TEST_F(WriteTest, RoomGoesToThoseThatCanFillItWithTheEpoch) {
  make_file(1);
  ASSERT_EQ(truncate(1, 0, 9), NfsStatus::kOk);
  auto written = write(hinted(1), 10, "xyz");
  ASSERT_TRUE(written.ok.wcc.after);
  EXPECT_EQ(written.ok.wcc.after->size, 13u);
  EXPECT_EQ(written.ok.wcc.after->rdev_major, 9u);
  EXPECT_EQ(written.ok.wcc.after->nlink, 0u);
  // Proxies believe this of it, and nothing that a client said.
  EXPECT_EQ(written.ok.wcc.after->fileid, FileId{1});
  EXPECT_EQ(written.ok.wcc.after->rdev_minor, handle_of(1).directory_site.value);
  EXPECT_EQ(written.ok.wcc.after->used, 13u);
  nfs3::Time first = written.ok.wcc.after->mtime;
  EXPECT_GT(first, (nfs3::Time{100, 0}));
  EXPECT_EQ(write(hinted(1), 0, "ab").ok.wcc.after->used, 2u);
  EXPECT_GT(write(hinted(1), 0, "a").ok.wcc.after->mtime, first);
  EXPECT_EQ(authority.attributes({1}).size, 0u);
  loop_.advance(milliseconds(1500));
  EXPECT_GT(authority.attributes({1}).mtime, first);
}

// As after the proxy was replaced: its successor does not know the file.
TEST_F(WriteTest, OneThatComesAgainWithoutHintIsToldAndAnsweredWithoutAttributes) {
  make_file(1);
  auto copy = [this](const routing::HandleBytes& handle) {
    const Buffer results =
        call(nfs3::Procedure::kWrite, nfs3::WriteArgs{handle, 5, 3, nfs3::Stable::kUnstable, as_bytes("abc")},
             1000, true);
    rpc::XdrReader in(results.view());
    NfsStatus status{};
    nfs3::WriteOk ok;
    EXPECT_TRUE(nfs3::decode_result(in, status, ok) && in.complete());
    EXPECT_EQ(status, NfsStatus::kOk);
    return ok;
  };
  const nfs3::WriteOk first = copy(hinted(1));
  ASSERT_TRUE(first.wcc.after);
  EXPECT_EQ(authority.attributes({1}).size, 0u) << "within a second";
  const nfs3::WriteOk second = copy(mint(handle_of(1)));
  EXPECT_FALSE(second.wcc.after);
  EXPECT_EQ(second.count, 3u);
  EXPECT_EQ(second.verifier, first.verifier);
  EXPECT_EQ(authority.attributes({1}).size, 8u);
  EXPECT_EQ(authority.attributes({1}).mtime, first.wcc.after->mtime);
}

TEST_F(WriteTest, WhoGetsNoAttributesFindsThemAtTheAuthority) {
  make_file(1);
  EXPECT_FALSE(write(mint(handle_of(1)), 0, "unstable").ok.wcc.after);
  EXPECT_EQ(authority.attributes({1}).size, 8u);
  authority.attributes({1}).mode = 06755;
  loop_.advance(milliseconds(2100));
  EXPECT_FALSE(write(hinted(1), 0, "who wrote is not its owner").ok.wcc.after)
      << "its mode is no longer that";
}

TEST_F(WriteTest, AStableOneThatMovesTheSizeTellsTheAuthorityFirst) {
  make_file(1);
  auto handle = hinted(1);
  auto written = write(handle, 0, "0123456789", nfs3::Stable::kDataSync);
  EXPECT_EQ(written.ok.committed, nfs3::Stable::kFileSync);
  EXPECT_EQ(authority.attributes({1}).size, 10u);  // already
  unsigned merges = authority.merges;
  ASSERT_EQ(write(handle, 5, "x", nfs3::Stable::kFileSync).status, NfsStatus::kOk);
  EXPECT_EQ(authority.merges, merges);  // the size stands
  loop_.advance(milliseconds(1500));
  EXPECT_EQ(authority.merges, merges + 1);  // the mtime follows within a second or so
}

TEST_F(WriteTest, AnUnstableOneIsToldWithinASecond) {
  make_file(1);
  ASSERT_EQ(write(hinted(1), 0, "lazy").status, NfsStatus::kOk);
  EXPECT_EQ(authority.attributes({1}).size, 0u);
  loop_.advance(milliseconds(1500));
  EXPECT_EQ(authority.attributes({1}).size, 4u);
}

// What is cached of the file lets an unstable one pass; the size of a stable one has to be told.
TEST_F(WriteTest, AStableOneIsNotAnsweredWhileTheAuthorityCannotBeTold) {
  make_file(1);
  ASSERT_EQ(write(hinted(1), 0, "known").status, NfsStatus::kOk);
  silence("dir1");
  EXPECT_EQ(write(hinted(1), 0, "still").status, NfsStatus::kOk);
  EXPECT_EQ(write(hinted(1), 5, " longer", nfs3::Stable::kFileSync).status, NfsStatus::kJukebox);
  serve("dir1", authority);
  EXPECT_EQ(write(hinted(1), 5, " longer", nfs3::Stable::kFileSync).status, NfsStatus::kOk);
  EXPECT_EQ(authority.attributes({1}).size, 12u);
}

TEST_F(WriteTest, AStableOneOutlivesACrash) {
  make_file(1);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, "stable", nfs3::Stable::kFileSync).status, NfsStatus::kOk);
  ASSERT_EQ(write(hinted(1), 0, "UNSTABLE").status, NfsStatus::kOk);
  disk_.crash(storage::MemoryDisk::Crash::kDropUnsynced);
  stop_server();
  start_server();
  EXPECT_EQ(read(handle, 0, 6).data, "stable");
}

TEST_F(WriteTest, AcrossTheThresholdIsAnsweredShort) {
  make_file(1);
  auto handle = mint(handle_of(1));
  auto written = write(handle, kThreshold - 4, "abcdefgh");
  EXPECT_EQ(written.status, NfsStatus::kOk);
  EXPECT_EQ(written.ok.count, 4u);
  EXPECT_EQ(authority.attributes({1}).size, kThreshold) << "what lies above is told by who took it";
}

TEST_F(WriteTest, CountsAndTypesThatMakeNoSense) {
  make_file(1);
  auto handle = mint(handle_of(1));
  EXPECT_EQ(write(handle, 0, "abc", nfs3::Stable::kUnstable, 1000, 2).ok.count, 2u);
  EXPECT_EQ(read(handle, 0, 10).data, "ab");
  auto empty = write(handle, 30, "");
  EXPECT_EQ(empty.status, NfsStatus::kOk);
  EXPECT_EQ(empty.ok.count, 0u);
  EXPECT_EQ(read(handle, 0, 10).data, "ab");  // it moved nothing
  EXPECT_NE(write(mint(handle_of(1, nfs3::FileType::kDirectory)), 0, "x").status, NfsStatus::kOk);
  auto forged = handle;
  forged[12] ^= 1;
  EXPECT_EQ(write(forged, 0, "x").status, NfsStatus::kBadHandle);
}

TEST_F(WriteTest, AHandleAloneIsNoRight) {
  make_file(1, 0640);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, "secret").status, NfsStatus::kOk);
  EXPECT_EQ(write(handle, 0, "x", nfs3::Stable::kUnstable, 2000).status, NfsStatus::kAcces);
  EXPECT_EQ(write(handle, 0, "", nfs3::Stable::kUnstable, 2000).status, NfsStatus::kAcces);
  EXPECT_EQ(read(handle, 0, 10).data, "secret");
}

TEST_F(WriteTest, OfARemovedFileIsStale) {
  make_file(1);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, "x").status, NfsStatus::kOk);
  authority.remove({1});
  ASSERT_EQ(remove_here(1), NfsStatus::kOk);
  EXPECT_EQ(write(handle, 0, "late").status, NfsStatus::kStale);
}

}  // namespace
}  // namespace slice::smallfile
