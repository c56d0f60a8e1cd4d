#include "storagenode/testing/server_fixture.h"

namespace slice::storagenode {
namespace {

using WriteTest = StorageServerTest;

class WriteAgainTest : public StorageServerTest {
 protected:
  // One call of one client, whenever it comes.
  WriteReply copy(std::uint64_t hint) {
    auto bytes = stamped(handle, hint);
    auto response =
        call(Procedure::kWrite, nfs3::WriteArgs{bytes, kThreshold, 4, Stable::kUnstable, as_bytes("abcd")},
             1000, true);
    EXPECT_TRUE(response) << response.error().message;
    WriteReply reply;
    rpc::XdrReader in(response->results());
    EXPECT_TRUE(nfs3::decode_result(in, reply.status, reply.ok) && in.complete());
    return reply;
  }
};

class WriteOfTwoNodesTest : public TwoNodesTest {
 protected:
  // Its owner is away, and may carry it out later: no answer.
  void expect_misdirected(std::uint64_t offset, ByteView data) {
    auto bytes = stamped(handle, 0);
    auto count = static_cast<std::uint32_t>(data.size());
    EXPECT_FALSE(
        call(Procedure::kWrite, nfs3::WriteArgs{bytes, offset, count, Stable::kUnstable, data}, 1000));
    EXPECT_GE(metrics_.counter("nfs_misdirected_total").value(), 1u);
    loop_.advance(std::chrono::minutes(1));  // so long the server does it again
  }
};

TEST_F(WriteTest, AnswersCountStabilityAndVerifier) {
  Buffer data = bytes_of(10'000, 1);
  auto written = write(kThreshold, data.view());
  ASSERT_EQ(written.status, NfsStatus::kOk);
  EXPECT_EQ(written.ok.count, 10'000u);
  EXPECT_EQ(written.ok.committed, Stable::kUnstable);
  EXPECT_EQ(written.ok.verifier, Verifier{1});
  EXPECT_FALSE(written.ok.wcc.before) << "nobody here can know it atomically";
  EXPECT_FALSE(written.ok.wcc.after) << "nobody said that a proxy will patch it";
  EXPECT_EQ(read(kThreshold, 10'000).data, text(data));
  EXPECT_EQ(write(kThreshold, data.view(), Stable::kDataSync).ok.committed, Stable::kDataSync);
  EXPECT_EQ(write(kThreshold, data.view(), Stable::kFileSync).ok.committed, Stable::kFileSync);
}

TEST_F(WriteTest, BeyondAQuotaOnlyWhatIsStoredAlready) {
  Settings limited = *settings_.get();
  limited.quotas[{QuotaKind::kGroup, 1000}].space.hard = 8192;
  settings_.set(std::move(limited));
  const Buffer block = bytes_of(4096, 1);
  authority.room = 8192;
  EXPECT_EQ(write(kThreshold, block.view()).status, NfsStatus::kOk);
  EXPECT_EQ(write(kThreshold + 12288, block.view()).status, NfsStatus::kOk);
  authority.room = 0;  // the authority was told of these
  EXPECT_EQ(write(kThreshold + 4096, as_bytes("c")).status, NfsStatus::kDquot) << "the hole";
  EXPECT_EQ(write(kThreshold + 16384, as_bytes("c")).status, NfsStatus::kDquot);
  EXPECT_EQ(write(kThreshold + 12300, as_bytes("over")).status, NfsStatus::kOk);
  EXPECT_EQ(write(kThreshold, as_bytes("over")).status, NfsStatus::kOk);
  EXPECT_EQ(read(kThreshold + 12300, 4).data, "over");
}

TEST_F(WriteTest, TheFirstOneTellsOfStripesBeforeItIsAnswered) {
  EXPECT_FALSE(authority.file(FileId{42}).striped);
  write(kThreshold, as_bytes("abcd"));
  EXPECT_TRUE(authority.file(FileId{42}).striped);
  EXPECT_EQ(authority.striped_fetches, 1u);
  write(kThreshold + 4, as_bytes("efgh"));
  EXPECT_EQ(authority.striped_fetches, 1u) << "once is enough";
}

TEST_F(WriteTest, IsNotAnsweredWhileTheAuthorityIsAway) {
  silence("dir1");
  EXPECT_EQ(write(kThreshold, as_bytes("abcd")).status, NfsStatus::kJukebox);
}

// What is cached of the file lets an unstable one pass; the size of a stable one has to be told.
TEST_F(WriteTest, AStableOneIsNotAnsweredWhileTheAuthorityCannotBeTold) {
  ASSERT_EQ(write(kThreshold, as_bytes("known"), Stable::kUnstable, kCanPatch).status, NfsStatus::kOk);
  silence("dir1");
  EXPECT_EQ(write(kThreshold, as_bytes("still"), Stable::kUnstable, kCanPatch).status, NfsStatus::kOk);
  EXPECT_EQ(write(kThreshold + 5, as_bytes(" longer"), Stable::kFileSync, kCanPatch).status,
            NfsStatus::kJukebox);
  serve("dir1", authority);
  EXPECT_EQ(write(kThreshold + 5, as_bytes(" longer"), Stable::kFileSync, kCanPatch).status, NfsStatus::kOk);
  EXPECT_EQ(authority.file(FileId{42}).attributes.size, kThreshold + 12);
}

TEST_F(WriteTest, PermissionsAreCheckedHere) {
  write(kThreshold, as_bytes("abcd"));
  EXPECT_EQ(write(kThreshold, as_bytes("x"), Stable::kUnstable, 0, 2000).status, NfsStatus::kAcces);
  EXPECT_EQ(write(kThreshold, {}, Stable::kUnstable, 0, 2000).status, NfsStatus::kAcces);
  EXPECT_EQ(read(kThreshold, 4).data, "abcd");
  authority.file(FileId{42}).attributes.mode = 0646;
  EXPECT_EQ(write(kThreshold, as_bytes("x"), Stable::kUnstable, 0, 2000).status, NfsStatus::kOk)
      << "a permission counts as soon as it is given";
}

TEST_F(WriteTest, RoomOnlyWhereTheProxyFillsItAndOneMtimeEverywhere) {
  loop_.advance(std::chrono::seconds(3));
  auto written = write(kThreshold, as_bytes("abcd"), Stable::kFileSync, kCanPatch);
  ASSERT_TRUE(written.ok.wcc.after);
  EXPECT_EQ(written.ok.wcc.after->size, kThreshold + 4);
  EXPECT_EQ(written.ok.wcc.after->fileid, FileId{42});
  EXPECT_EQ(written.ok.wcc.after->used, kThreshold + 4) << "where this WRITE ended";
  EXPECT_EQ(written.ok.wcc.after->mtime, authority.file(FileId{42}).attributes.mtime);
  EXPECT_EQ(write(kThreshold, as_bytes("ab"), Stable::kFileSync, kCanPatch).ok.wcc.after->used,
            kThreshold + 2);
  EXPECT_FALSE(write(kThreshold + 4, as_bytes("efgh")).ok.wcc.after);
  EXPECT_EQ(authority.file(FileId{42}).attributes.size, kThreshold + 8) << "where the client asks next";
}

TEST_F(WriteTest, WhoClearsAModeBitGetsNoAttributesAndFindsThemAtTheAuthority) {
  authority.file(FileId{42}).attributes.mode = 06777;
  auto written = write(kThreshold, as_bytes("by another"), Stable::kUnstable, kCanPatch, 2000);
  EXPECT_EQ(written.status, NfsStatus::kOk);
  EXPECT_FALSE(written.ok.wcc.after) << "its mode is no longer that";
  EXPECT_EQ(authority.file(FileId{42}).attributes.size, kThreshold + 10) << "told before it is answered";
}

TEST_F(WriteTest, StableOnesTellTheSizeFirstUnstableOnesWithinASecond) {
  write(kThreshold, as_bytes("abcd"), Stable::kFileSync, kCanPatch);
  EXPECT_EQ(authority.file(FileId{42}).attributes.size, kThreshold + 4);
  unsigned merges = authority.merges;
  write(kThreshold, as_bytes("ABCD"), Stable::kFileSync, kCanPatch);
  EXPECT_EQ(authority.merges, merges) << "the size did not move: told later";
  write(kThreshold + 4, as_bytes("efgh"), Stable::kUnstable, kCanPatch);
  EXPECT_EQ(authority.file(FileId{42}).attributes.size, kThreshold + 4);
  loop_.advance(std::chrono::milliseconds(1100));
  EXPECT_EQ(authority.file(FileId{42}).attributes.size, kThreshold + 8);
}

// As after the proxy was replaced: its successor does not know the file.
TEST_F(WriteAgainTest, WithoutHintIsToldAndAnsweredWithoutAttributes) {
  loop_.advance(std::chrono::seconds(3));
  auto first = copy(kCanPatch);
  ASSERT_TRUE(first.ok.wcc.after);
  EXPECT_EQ(authority.file(FileId{42}).attributes.size, 0u) << "within a second";
  silence("dir1");
  EXPECT_EQ(copy(0).status, NfsStatus::kJukebox) << "the client would ask for a size that nobody was told";
  serve("dir1", authority);
  auto second = copy(0);
  ASSERT_EQ(second.status, NfsStatus::kOk);
  EXPECT_FALSE(second.ok.wcc.after);
  EXPECT_EQ(second.ok.count, 4u);
  EXPECT_EQ(second.ok.committed, first.ok.committed);
  EXPECT_EQ(second.ok.verifier, first.ok.verifier);
  EXPECT_EQ(authority.file(FileId{42}).attributes.size, kThreshold + 4);
  EXPECT_GE(authority.file(FileId{42}).attributes.mtime, first.ok.wcc.after->mtime);
  EXPECT_TRUE(copy(kCanPatch).ok.wcc.after) << "who can fill it gets it";
  write(kThreshold, as_bytes("ABCD"), Stable::kUnstable, kCanPatch);
  EXPECT_EQ(copy(0).status, NfsStatus::kOk);
  EXPECT_EQ(read(kThreshold, 4).data, "ABCD") << "what was written since stays";
}

// Its end counts for nothing: the file was cut, and is as long as others say.
TEST_F(WriteAgainTest, OfAnEpochThatIsOverDoesNotGrowTheFile) {
  EXPECT_EQ(copy(kCanPatch).status, NfsStatus::kOk);
  loop_.advance(std::chrono::milliseconds(1100));
  authority.truncate(FileId{42}, 10);
  EXPECT_EQ(copy(0).status, NfsStatus::kOk);
  EXPECT_EQ(authority.file(FileId{42}).attributes.size, 10u);
}

TEST_F(WriteTest, OffsetsAtTheEndsOfNumbers) {
  constexpr std::uint64_t kMax = (std::uint64_t{1} << 63) - 1;
  EXPECT_EQ(write(kMax, as_bytes("x")).status, NfsStatus::kFbig);
  EXPECT_EQ(write(std::uint64_t{1} << 63, as_bytes("x")).status, NfsStatus::kFbig);
  EXPECT_EQ(write(~std::uint64_t{0}, as_bytes("x")).status, NfsStatus::kFbig);
  EXPECT_EQ(write(kMax, {}).status, NfsStatus::kOk) << "nothing is nowhere too far";
  auto last = write(kMax - 2, as_bytes("xyz"), Stable::kFileSync);
  ASSERT_EQ(last.status, NfsStatus::kOk);
  EXPECT_EQ(last.ok.count, 2u) << "the last byte a file may have";
}

TEST_F(WriteTest, CountsOfZeroAndOfTheLargestTransfer) {
  auto none = write(kThreshold, {});
  EXPECT_EQ(none.status, NfsStatus::kOk);
  EXPECT_EQ(none.ok.count, 0u);
  EXPECT_FALSE(authority.file(FileId{42}).striped) << "nothing was made for it";
  Buffer data = bytes_of(1 << 20, 3);
  ASSERT_EQ(write(1 << 20, data.view()).ok.count, 1u << 20);
  EXPECT_EQ(read(1 << 20, 1 << 20).data, text(data));
}

TEST_F(WriteTest, OnlyRegularFiles) {
  handle.type = nfs3::FileType::kDirectory;
  EXPECT_EQ(write(kThreshold, as_bytes("x")).status, NfsStatus::kIsDir);
  handle.type = nfs3::FileType::kSymlink;
  EXPECT_EQ(write(kThreshold, as_bytes("x")).status, NfsStatus::kInval);
}

TEST_F(WriteTest, OfARemovedFileIsStaleAndMakesNoObject) {
  write(kThreshold, as_bytes("secret"), Stable::kFileSync);
  authority.remove(FileId{42});
  ASSERT_TRUE(
      object<wire::ObjectStatusResult>(wire::ObjectProcedure::kRemove, wire::ObjectRemoveArgs{name()}));
  EXPECT_EQ(write(kThreshold, as_bytes("x")).status, NfsStatus::kStale);
  EXPECT_TRUE(
      object<wire::ObjectListResult>(wire::ObjectProcedure::kList, wire::ObjectListArgs{})->objects.empty());
}

TEST_F(WriteTest, OnAFullDiskIsNospcUntilThereIsRoom) {
  write(kThreshold, as_bytes("abcd"));
  disk_.set_capacity(disk_.used_bytes());
  EXPECT_EQ(write(1 << 20, as_bytes("x")).status, NfsStatus::kNoSpc);
  EXPECT_EQ(read(kThreshold, 4).data, "abcd");
  disk_.set_capacity(1 << 30);
  EXPECT_EQ(write(1 << 20, as_bytes("x")).status, NfsStatus::kOk);
}

TEST_F(WriteOfTwoNodesTest, EndsWhereTheStripesOfAnotherNodeBegin) {
  std::uint64_t offset = end_of_ours();
  Buffer data = bytes_of(2 * kUnit, 1);
  auto written = write(offset + 1000, data.view());
  ASSERT_EQ(written.status, NfsStatus::kOk);
  EXPECT_EQ(written.ok.count, kUnit - 1000);
  expect_misdirected(offset + kUnit, data.view());
}

TEST_F(WriteOfTwoNodesTest, BelowTheThresholdIsNotOurs) {
  expect_misdirected(0, as_bytes("x"));
}

}  // namespace
}  // namespace slice::storagenode
