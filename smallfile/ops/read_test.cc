#include <gtest/gtest.h>

#include "smallfile/testing/server_fixture.h"

namespace slice::smallfile {
namespace {

using std::chrono::milliseconds;
using ReadTest = SmallFileServerTest;

TEST_F(ReadTest, EndOfFileIsExact) {
  make_file(1);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, "0123456789").status, NfsStatus::kOk);
  auto whole = read(handle, 0, 100);
  EXPECT_EQ(whole.data, "0123456789");
  EXPECT_TRUE(whole.eof);
  EXPECT_FALSE(whole.attributes);
  EXPECT_FALSE(read(handle, 0, 9).eof);
  EXPECT_TRUE(read(handle, 0, 10).eof);
  auto at_end = read(handle, 10, 5);
  EXPECT_EQ(at_end.data, "");
  EXPECT_TRUE(at_end.eof);
  EXPECT_TRUE(read(handle, 60000, 5).eof);
  auto none = read(handle, 3, 0);
  EXPECT_EQ(none.status, NfsStatus::kOk);
  EXPECT_EQ(none.data, "");
  EXPECT_FALSE(none.eof);
}

TEST_F(ReadTest, OfAFileWithoutBytesHereIsEmptyOrAHole) {
  make_file(1);
  auto handle = mint(handle_of(1));
  auto empty = read(handle, 0, 100);
  EXPECT_EQ(empty.status, NfsStatus::kOk);
  EXPECT_EQ(empty.data, "");
  EXPECT_TRUE(empty.eof);
  authority.attributes({1}).size = 30;
  auto hole = read(handle, 0, 100);
  EXPECT_EQ(hole.data, std::string(30, '\0'));
  EXPECT_TRUE(hole.eof);
}

TEST_F(ReadTest, BehindItsOwnEndTheAuthoritysSizeTellsHoleFromEndOfFile) {
  make_file(1);
  authority.attributes({1}).size = 20000;  // a truncate made it larger
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, "abc").status, NfsStatus::kOk);
  auto hole = read(handle, 2, 10);
  EXPECT_EQ(hole.data, "c" + std::string(9, '\0'));
  EXPECT_FALSE(hole.eof);
  auto last = read(handle, 19990, 100);
  EXPECT_EQ(last.data, std::string(10, '\0'));
  EXPECT_TRUE(last.eof);
  // Bytes above the threshold: the file goes on elsewhere.
  authority.attributes({1}).size = 10 << 20;
  auto own = read(handle, kThreshold - 6, 100);
  EXPECT_EQ(own.data.size(), 6u);
  EXPECT_FALSE(own.eof);
}

TEST_F(ReadTest, AcrossTheThresholdIsAnsweredShort) {
  make_file(1);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, kThreshold - 4, "abcd").status, NfsStatus::kOk);
  authority.attributes({1}).size = kThreshold + 4;
  auto got = read(handle, kThreshold - 4, 8);
  EXPECT_EQ(got.data, "abcd");
  EXPECT_FALSE(got.eof);
}

TEST_F(ReadTest, TheHintsSizeSavesAskingTheAuthority) {
  make_file(1);
  ASSERT_EQ(write(hinted(1), 0, "abc").status, NfsStatus::kOk);
  unsigned fetches = authority.fetches;
  auto reply = read(hinted(1, 6), 0, 100);
  EXPECT_EQ(reply.data, std::string("abc\0\0\0", 6));
  EXPECT_TRUE(reply.eof);
  EXPECT_EQ(authority.fetches, fetches);
  EXPECT_EQ(read(hinted(1, 0), 0, 100).data, "abc");  // never less than what is here
  // A hint changes its own reply only.
  EXPECT_EQ(read(mint(handle_of(1)), 0, 100).data, "abc");
}

TEST_F(ReadTest, RoomGoesToThoseThatCanFillItWithTheEpoch) {
  make_file(1);
  ASSERT_EQ(truncate(1, 0, 9), NfsStatus::kOk);
  ASSERT_EQ(write(hinted(1), 10, "xyz").status, NfsStatus::kOk);
  auto got = read(hinted(1), 0, 100);
  ASSERT_TRUE(got.attributes);
  EXPECT_EQ(got.attributes->nlink, 0u);
  EXPECT_EQ(got.attributes->mtime, (nfs3::Time{}));
  EXPECT_EQ(got.attributes->atime, nfs3::time_of(loop_.wall()));
  EXPECT_EQ(got.attributes->size, 13u);
  EXPECT_EQ(got.attributes->rdev_major, 9u);
  EXPECT_EQ(got.attributes->fileid, FileId{1});
  EXPECT_EQ(got.attributes->used, 0u) << "nothing was written";
}

TEST_F(ReadTest, OfWhatIsNoRegularFile) {
  make_file(1);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, "ab").status, NfsStatus::kOk);
  EXPECT_EQ(read(mint(handle_of(1, nfs3::FileType::kDirectory)), 0, 10).status, NfsStatus::kIsDir);
  EXPECT_EQ(read(mint(handle_of(1, nfs3::FileType::kSymlink)), 0, 10).status, NfsStatus::kInval);
  auto forged = handle;
  forged[12] ^= 1;
  EXPECT_EQ(read(forged, 0, 1).status, NfsStatus::kBadHandle);
}

TEST_F(ReadTest, ACountBeyondAllThatAReplyCanCarry) {
  make_file(1);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, "ab").status, NfsStatus::kOk);
  EXPECT_EQ(read(handle, 0, ~0u).data, "ab");
}

TEST_F(ReadTest, AHandleAloneIsNoRight) {
  make_file(1, 0640);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, "secret").status, NfsStatus::kOk);
  EXPECT_EQ(read(handle, 0, 10, 2000).status, NfsStatus::kAcces);
  // The owner may always; others as soon as the mode says so, within two seconds.
  authority.attributes({1}).mode = 0004;
  EXPECT_EQ(read(handle, 0, 10).data, "secret");
  loop_.advance(milliseconds(2100));
  EXPECT_EQ(read(handle, 0, 10, 2000).data, "secret");
  authority.attributes({1}).mode = 0;
  loop_.advance(milliseconds(2100));
  EXPECT_EQ(read(handle, 0, 10, 2000).status, NfsStatus::kAcces);
}

// A client reads a program that it may run, and no more, to run it.
TEST_F(ReadTest, WhoMayRunAFileMayReadIt) {
  make_file(1, 0641);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, "program").status, NfsStatus::kOk);
  EXPECT_EQ(read(handle, 0, 10, 2000).data, "program");
}

TEST_F(ReadTest, AReplyToWhoAskedOverUdpFitsADatagram) {
  make_file(1);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, std::string(kThreshold, 'x'), nfs3::Stable::kFileSync).status, NfsStatus::kOk);
  auto over_udp = read(handle, 0, kThreshold, 1000, true);
  EXPECT_EQ(over_udp.status, NfsStatus::kOk);
  EXPECT_EQ(over_udp.data, std::string(nfs3::kMaxUdpTransfer, 'x'));
  EXPECT_FALSE(over_udp.eof);
  EXPECT_TRUE(read(handle, kThreshold - 100, ~0u, 1000, true).eof);
  EXPECT_EQ(read(handle, 0, kThreshold).data.size(), kThreshold) << "over TCP there is room";
}

TEST_F(ReadTest, OfARemovedFileIsStale) {
  make_file(1);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, "x").status, NfsStatus::kOk);
  authority.remove({1});
  ASSERT_EQ(remove_here(1), NfsStatus::kOk);
  EXPECT_EQ(read(handle, 0, 1).status, NfsStatus::kStale);
}

TEST_F(ReadTest, AnUnreachableAuthorityMakesClientsWaitAndLosesNothing) {
  make_file(1);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, "kept").status, NfsStatus::kOk);
  loop_.advance(std::chrono::seconds(4));
  silence("dir1");
  EXPECT_EQ(read(handle, 0, 4).status, NfsStatus::kJukebox);
  serve("dir1", authority);
  EXPECT_EQ(read(handle, 0, 4).data, "kept");
}

TEST_F(ReadTest, ADamagedBlockIsAnIoErrorAndCounted) {
  make_file(1);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, std::string(5000, 'x'), nfs3::Stable::kFileSync).status, NfsStatus::kOk);
  ASSERT_TRUE(run(server->store().save()));
  auto stat = manage<wire::ObjectStatResult>(wire::ObjectProcedure::kStat, wire::ObjectStatArgs{object(1)});
  ASSERT_EQ(stat.status, NfsStatus::kOk);
  ASSERT_EQ(stat.extents.size(), 1u);
  EXPECT_EQ(stat.end, 5000u);
  EXPECT_EQ(stat.allocated, 8192u);
  SiteId site = tables_.get()->small_file_site({1});
  stop_server();
  ASSERT_TRUE(disk_.corrupt(DiskZoneStore::path(site), stat.extents[0].place + 1234, 4));
  start_server();
  EXPECT_EQ(read(handle, 0, 100).status, NfsStatus::kIo);
  EXPECT_EQ(metrics_.counter("smallfile_damaged_blocks_total").value(), 1u);
}

TEST_F(ReadTest, ATruncateWhileItWaitsForTheDiskIsSeenWholeOrNotAtAll) {
  make_file(1);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, std::string(20000, 'x'), nfs3::Stable::kFileSync).status, NfsStatus::kOk);
  ASSERT_TRUE(run(server->store().save()));
  stop_server();
  start_server();  // the blocks are in the zone only
  disk_.set_delay(milliseconds(5), milliseconds(5));
  bool cut = false;
  loop_.after(milliseconds(2), [&] {  // its block is on the way from the disk
    authority.attributes({1}).size = 100;
    authority.attributes({1}).rdev_major = 1;
    start(server->store().truncate({1}, 100, Epoch{1}),
          [&](slice::Status status) { cut = status.has_value(); });
  });
  auto got = read(handle, 0, 20000);
  loop_.advance(milliseconds(50));
  EXPECT_TRUE(cut);
  EXPECT_EQ(got.data, std::string(100, 'x'));
  EXPECT_TRUE(got.eof);
}

}  // namespace
}  // namespace slice::smallfile
