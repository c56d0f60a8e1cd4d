#include "storagenode/testing/server_fixture.h"

namespace slice::storagenode {
namespace {

using ReadTest = StorageServerTest;
using ReadOfTwoNodesTest = TwoNodesTest;

TEST_F(ReadTest, GivesWhatWasWritten) {
  Buffer data = bytes_of(10'000, 1);
  ASSERT_EQ(write(kThreshold, data.view()).status, NfsStatus::kOk);
  auto got = read(kThreshold, 10'000);
  EXPECT_EQ(got.data, text(data));
  EXPECT_TRUE(got.ok.eof);
  EXPECT_FALSE(got.ok.attributes);
}

TEST_F(ReadTest, IsNotAnsweredWhileTheAuthorityIsAway) {
  silence("dir1");
  EXPECT_EQ(read(kThreshold, 4).status, NfsStatus::kJukebox);
}

// What is cached of the file lets it pass, but behind what is here only the authority knows the end.
TEST_F(ReadTest, BehindWhatIsHereNeedsTheAuthority) {
  ASSERT_EQ(write(kThreshold, as_bytes("here")).status, NfsStatus::kOk);
  silence("dir1");
  EXPECT_EQ(read(kThreshold, 3).data, "her");
  EXPECT_EQ(read(kThreshold, 10).status, NfsStatus::kJukebox);
  serve("dir1", authority);
  EXPECT_EQ(read(kThreshold, 10).data, "here");
}

TEST_F(ReadTest, PermissionsAreCheckedHere) {
  write(kThreshold, as_bytes("abcd"));
  EXPECT_EQ(read(kThreshold, 4, 0, 2000).status, NfsStatus::kOk) << "0644";
  authority.file(FileId{42}).attributes.mode = 0600;
  loop_.advance(std::chrono::milliseconds(2100));
  EXPECT_EQ(read(kThreshold, 4, 0, 2000).status, NfsStatus::kAcces) << "within two seconds";
  EXPECT_EQ(read(kThreshold, 4, 0, 1000).status, NfsStatus::kOk);
}

TEST_F(ReadTest, AReplyToWhoAskedOverUdpFitsADatagram) {
  Buffer data = bytes_of(2 * kThreshold, 1);
  write(kThreshold, data.view(), Stable::kFileSync);
  for (std::uint32_t count : {65536u, 1u << 20, ~0u}) {
    auto got = read(kThreshold, count, 0, 1000, true);
    EXPECT_EQ(got.data, text(data).substr(0, nfs3::kMaxUdpTransfer)) << count;
    EXPECT_FALSE(got.ok.eof);
  }
  EXPECT_TRUE(read(3 * kThreshold - 10, 65536, 0, 1000, true).ok.eof);
  EXPECT_EQ(read(kThreshold, 1 << 20).data, text(data)) << "over TCP there is room";
}

TEST_F(ReadTest, EofExactlyAtTheEndAndHolesAreZeros) {
  write(kThreshold + 5000, bytes_of(5000, 1).view(), Stable::kFileSync);
  EXPECT_EQ(authority.file(FileId{42}).attributes.size, kThreshold + 10'000);
  auto before = read(kThreshold, 9999);
  EXPECT_FALSE(before.ok.eof);
  EXPECT_EQ(before.data.substr(0, 5000), std::string(5000, '\0'));
  EXPECT_TRUE(read(kThreshold, 10'000).ok.eof);
  auto over = read(kThreshold, 10'001);
  EXPECT_TRUE(over.ok.eof);
  EXPECT_EQ(over.ok.count, 10'000u);
  auto behind = read(kThreshold + 10'000, 10);
  EXPECT_TRUE(behind.ok.eof);
  EXPECT_EQ(behind.ok.count, 0u);
  auto nothing = read(kThreshold + 10, 0);
  EXPECT_EQ(nothing.status, NfsStatus::kOk);
  EXPECT_FALSE(nothing.ok.eof);
}

TEST_F(ReadTest, OfAFileWithoutAnObjectHereIsEmptyOrAHole) {
  auto empty = read(kThreshold, 100);
  EXPECT_EQ(empty.status, NfsStatus::kOk);
  EXPECT_EQ(empty.ok.count, 0u);
  EXPECT_TRUE(empty.ok.eof);
  authority.file(FileId{42}).attributes.size = kThreshold + 50;
  auto hole = read(kThreshold, 100);
  EXPECT_EQ(hole.data, std::string(50, '\0'));
  EXPECT_TRUE(hole.ok.eof);
  EXPECT_FALSE(authority.file(FileId{42}).striped) << "nothing was made for it";
}

TEST_F(ReadTest, WhatOthersHoldIsAHoleHereAndNotTheEnd) {
  write(kThreshold, as_bytes("here"));
  authority.file(FileId{42}).attributes.size = 1 << 20;  // written elsewhere
  auto got = read(kThreshold, 5000);
  EXPECT_EQ(got.ok.count, 5000u);
  EXPECT_FALSE(got.ok.eof);
  EXPECT_EQ(got.data, "here" + std::string(4996, '\0'));
  EXPECT_FALSE(read((1 << 20) - 10, 9).ok.eof);
  EXPECT_TRUE(read((1 << 20) - 10, 10).ok.eof);
  EXPECT_EQ(read((1 << 20) - 10, 100).ok.count, 10u);
}

TEST_F(ReadTest, TheHintsSizeSparesTheQuestion) {
  write(kThreshold, as_bytes("here"), Stable::kFileSync);
  unsigned asked = authority.fetches;
  auto got = read(kThreshold, 100, kSizeValid | (kThreshold + 50));
  EXPECT_EQ(got.ok.count, 50u);
  EXPECT_TRUE(got.ok.eof);
  EXPECT_EQ(authority.fetches, asked);
  EXPECT_EQ(read(kThreshold, 100).ok.count, 4u) << "a hint is of its own request alone";
  EXPECT_EQ(authority.fetches, asked + 1);
  EXPECT_EQ(read(kThreshold, 4, kSizeValid | 1).ok.count, 4u)
      << "what is here is here, whatever the hint says";
}

TEST_F(ReadTest, RoomOnlyWhereTheProxyFillsIt) {
  write(kThreshold, as_bytes("abcd"), Stable::kFileSync, kCanPatch);
  auto got = read(kThreshold, 4, kCanPatch);
  ASSERT_TRUE(got.ok.attributes);
  EXPECT_EQ(got.ok.attributes->nlink, 0u);
  EXPECT_EQ(got.ok.attributes->mtime, (nfs3::Time{}));
  EXPECT_EQ(got.ok.attributes->atime, nfs3::time_of(loop_.wall()));
  EXPECT_EQ(got.ok.attributes->size, kThreshold + 4);
  EXPECT_EQ(got.ok.attributes->used, 0u) << "nothing was written";
  EXPECT_EQ(got.data, "abcd");
  EXPECT_FALSE(read(kThreshold, 4).ok.attributes);
}

TEST_F(ReadTest, OffsetsAtTheEndsOfNumbers) {
  constexpr std::uint64_t kMax = (std::uint64_t{1} << 63) - 1;
  ASSERT_EQ(write(kMax - 2, as_bytes("xyz"), Stable::kFileSync).ok.count, 2u);
  auto got = read(kMax - 4, 100);
  EXPECT_EQ(got.data, std::string("\0\0xy", 4));
  EXPECT_TRUE(got.ok.eof);
  for (std::uint64_t offset : {kMax, std::uint64_t{1} << 63, ~std::uint64_t{0} - 1, ~std::uint64_t{0}}) {
    auto behind = read(offset, 1 << 20);
    EXPECT_EQ(behind.status, NfsStatus::kOk);
    EXPECT_EQ(behind.ok.count, 0u);
    EXPECT_TRUE(behind.ok.eof);
  }
}

TEST_F(ReadTest, ACountBeyondTheLargestTransfer) {
  Buffer data = bytes_of((1 << 20) + 100, 3);
  ASSERT_EQ(write(1 << 20, data.view().first(1 << 20)).ok.count, 1u << 20);
  ASSERT_EQ(write(2 << 20, data.view().subspan(1 << 20)).ok.count, 100u);
  auto got = read(1 << 20, 0xffffffff);
  EXPECT_EQ(got.data, text(data).substr(0, nfs3::kMaxTransfer));
  EXPECT_FALSE(got.ok.eof);
}

TEST_F(ReadTest, OnlyRegularFiles) {
  handle.type = nfs3::FileType::kDirectory;
  EXPECT_EQ(read(kThreshold, 4).status, NfsStatus::kIsDir);
  handle.type = nfs3::FileType::kSymlink;
  EXPECT_EQ(read(kThreshold, 4).status, NfsStatus::kInval);
}

TEST_F(ReadTest, OfARemovedFileIsStaleAndShowsNothing) {
  write(kThreshold, as_bytes("secret"), Stable::kFileSync);
  authority.remove(FileId{42});
  ASSERT_TRUE(
      object<wire::ObjectStatusResult>(wire::ObjectProcedure::kRemove, wire::ObjectRemoveArgs{name()}));
  EXPECT_EQ(read(kThreshold, 6).status, NfsStatus::kStale);
}

TEST_F(ReadTest, CorruptedBlocksAreErrorsNeverData) {
  write(kThreshold, bytes_of(8192, 1).view(), Stable::kFileSync);
  ASSERT_TRUE(disk_.corrupt(head_path(name()), kDataStart + kThreshold + 5000, 8));
  EXPECT_EQ(read(kThreshold, 8192).status, NfsStatus::kIo);
  EXPECT_EQ(read(kThreshold, 4096).status, NfsStatus::kOk);
  EXPECT_EQ(metrics_.counter("store_checksum_errors_total").value(), 1u);
}

TEST_F(ReadOfTwoNodesTest, EndsWhereTheStripesOfAnotherNodeBegin) {
  std::uint64_t offset = end_of_ours();
  Buffer data = bytes_of(2 * kUnit, 1);
  ASSERT_EQ(write(offset + 1000, data.view()).status, NfsStatus::kOk);
  authority.file(FileId{42}).attributes.size = offset + 2 * kUnit;
  auto got = read(offset + 1000, 2 * kUnit);
  EXPECT_EQ(got.ok.count, kUnit - 1000);
  EXPECT_FALSE(got.ok.eof);
  EXPECT_EQ(got.data, text(data).substr(0, kUnit - 1000));
  EXPECT_EQ(read(offset + kUnit, 10).status, NfsStatus::kJukebox) << "misdirected";
}

TEST_F(ReadOfTwoNodesTest, BelowTheThresholdIsNotOurs) {
  EXPECT_EQ(read(kThreshold - 1, 10).status, NfsStatus::kJukebox);
}

}  // namespace
}  // namespace slice::storagenode
