// READ, WRITE, COMMIT and the object program as clients and managers see them: through the whole codec, with
// a fake authority.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "smallfile/testing/server_fixture.h"

namespace slice::smallfile {
namespace {

using std::chrono::milliseconds;

TEST_F(SmallFileServerTest, WritesAndReadsWithExactEndOfFile) {
  make_file(1);
  auto handle = mint(handle_of(1));
  auto written = write(handle, 0, "0123456789");
  ASSERT_EQ(written.status, Status::kOk);
  EXPECT_EQ(written.ok.count, 10u);
  EXPECT_EQ(written.ok.committed, nfs3::Stable::kUnstable);
  EXPECT_EQ(written.ok.verifier, verifier_.largest());
  EXPECT_FALSE(written.ok.wcc.after);  // no proxy to patch it: absent, not stale

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
  EXPECT_EQ(none.status, Status::kOk);
  EXPECT_EQ(none.data, "");
  EXPECT_FALSE(none.eof);
}

TEST_F(SmallFileServerTest, BehindItsOwnEndTheAuthoritysSizeTellsHoleFromEndOfFile) {
  make_file(1);
  authority.attributes({1}).size = 20000;  // a truncate made it larger
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, "abc").status, Status::kOk);
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

TEST_F(SmallFileServerTest, TheHintsSizeSavesAskingTheAuthority) {
  make_file(1);
  ASSERT_EQ(write(hinted(1), 0, "abc").status, Status::kOk);
  unsigned fetches = authority.fetches;
  auto reply = read(hinted(1, 6), 0, 100);
  EXPECT_EQ(reply.data, std::string("abc\0\0\0", 6));
  EXPECT_TRUE(reply.eof);
  EXPECT_EQ(authority.fetches, fetches);
  EXPECT_EQ(read(hinted(1, 0), 0, 100).data, "abc");  // never less than what is here
  // A hint changes its own reply only.
  EXPECT_EQ(read(mint(handle_of(1)), 0, 100).data, "abc");
}

TEST_F(SmallFileServerTest, RoomGoesToThoseThatCanFillItWithTheEpoch) {
  make_file(1);
  ASSERT_EQ(truncate(1, 0, 9), Status::kOk);
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
  auto got = read(hinted(1), 0, 100);
  ASSERT_TRUE(got.attributes);
  EXPECT_EQ(got.attributes->nlink, 0u);
  EXPECT_EQ(got.attributes->mtime, (nfs3::Time{}));
  EXPECT_EQ(got.attributes->atime, nfs3::time_of(loop_.wall()));
  EXPECT_EQ(got.attributes->size, 13u);
  EXPECT_EQ(got.attributes->fileid, FileId{1});
  EXPECT_EQ(got.attributes->used, 0u) << "nothing was written";
  EXPECT_EQ(write(hinted(1), 0, "ab").ok.wcc.after->used, 2u);
  EXPECT_GT(write(hinted(1), 0, "a").ok.wcc.after->mtime, first);
  EXPECT_EQ(authority.attributes({1}).size, 0u);
  loop_.advance(milliseconds(1500));
  EXPECT_GT(authority.attributes({1}).mtime, first);
}

TEST_F(SmallFileServerTest, WhoGetsNoAttributesFindsThemAtTheAuthority) {
  make_file(1);
  EXPECT_FALSE(write(mint(handle_of(1)), 0, "unstable").ok.wcc.after);
  EXPECT_EQ(authority.attributes({1}).size, 8u);
  authority.attributes({1}).mode = 06755;
  loop_.advance(milliseconds(2100));
  EXPECT_FALSE(write(hinted(1), 0, "who wrote is not its owner").ok.wcc.after)
      << "its mode is no longer that";
}

TEST_F(SmallFileServerTest, StableWritesThatMoveTheSizeTellTheAuthorityFirst) {
  make_file(1);
  auto handle = hinted(1);
  auto written = write(handle, 0, "0123456789", nfs3::Stable::kDataSync);
  EXPECT_EQ(written.ok.committed, nfs3::Stable::kFileSync);
  EXPECT_EQ(authority.attributes({1}).size, 10u);  // already
  unsigned merges = authority.merges;
  ASSERT_EQ(write(handle, 5, "x", nfs3::Stable::kFileSync).status, Status::kOk);
  EXPECT_EQ(authority.merges, merges);  // the size stands
  loop_.advance(milliseconds(1500));
  EXPECT_EQ(authority.merges, merges + 1);  // the mtime follows within a second or so
}

TEST_F(SmallFileServerTest, UnstableWritesAreToldWithinASecondAndByCommitAtOnce) {
  make_file(1);
  make_file(2);
  ASSERT_EQ(write(hinted(1), 0, "lazy").status, Status::kOk);
  ASSERT_EQ(write(hinted(2), 0, "committed").status, Status::kOk);
  EXPECT_EQ(authority.attributes({2}).size, 0u);
  auto [status, ok] = commit(mint(handle_of(2)));
  EXPECT_EQ(status, Status::kOk);
  EXPECT_EQ(ok.verifier, verifier_.largest());
  EXPECT_EQ(authority.attributes({2}).size, 9u);
  EXPECT_GT(authority.attributes({2}).mtime, (nfs3::Time{100, 0}));
  EXPECT_EQ(authority.attributes({1}).size, 0u);
  loop_.advance(milliseconds(1500));
  EXPECT_EQ(authority.attributes({1}).size, 4u);
}

TEST_F(SmallFileServerTest, RequestsAcrossTheThresholdAreAnsweredShort) {
  make_file(1);
  auto handle = mint(handle_of(1));
  auto written = write(handle, kThreshold - 4, "abcdefgh");
  EXPECT_EQ(written.status, Status::kOk);
  EXPECT_EQ(written.ok.count, 4u);
  authority.attributes({1}).size = kThreshold + 4;
  auto got = read(handle, kThreshold - 4, 8);
  EXPECT_EQ(got.data, "abcd");
  EXPECT_FALSE(got.eof);
}

TEST_F(SmallFileServerTest, WhatIsNotItsOwnIsMisdirected) {
  make_file(1);
  auto handle = mint(handle_of(1));
  for (std::uint64_t offset : {kThreshold, std::uint64_t{1} << 40, (std::uint64_t{1} << 63) - 1,
                               std::uint64_t{1} << 63, ~std::uint64_t{0} - 3, ~std::uint64_t{0}}) {
    EXPECT_NE(read(handle, offset, 10).status, Status::kOk) << offset;
    EXPECT_NE(write(handle, offset, "x").status, Status::kOk) << offset;
  }
  EXPECT_GT(metrics_.counter("nfs_misdirected_total").value(), 0u);
  silence("dir1");  // so that there is nobody to relay it to
  Buffer results = call(nfs3::Procedure::kGetattr, nfs3::HandleView(handle), 1000);
  EXPECT_EQ(load_be<std::uint32_t>(results.data()), static_cast<std::uint32_t>(Status::kJukebox));
}

TEST_F(SmallFileServerTest, CountsAndTypesThatMakeNoSense) {
  make_file(1);
  auto handle = mint(handle_of(1));
  EXPECT_EQ(write(handle, 0, "abc", nfs3::Stable::kUnstable, 1000, 2).ok.count, 2u);
  EXPECT_EQ(read(handle, 0, 10).data, "ab");
  auto empty = write(handle, 30, "");
  EXPECT_EQ(empty.status, Status::kOk);
  EXPECT_EQ(empty.ok.count, 0u);
  EXPECT_EQ(read(handle, 0, 10).data, "ab");  // it moved nothing
  EXPECT_EQ(read(mint(handle_of(1, nfs3::FileType::kDirectory)), 0, 10).status, Status::kIsDir);
  EXPECT_EQ(read(mint(handle_of(1, nfs3::FileType::kSymlink)), 0, 10).status, Status::kInval);
  EXPECT_NE(write(mint(handle_of(1, nfs3::FileType::kDirectory)), 0, "x").status, Status::kOk);
  auto forged = handle;
  forged[12] ^= 1;
  EXPECT_EQ(read(forged, 0, 1).status, Status::kBadHandle);
  EXPECT_EQ(read(handle, 0, ~0u).data, "ab");
}

TEST_F(SmallFileServerTest, AHandleAloneIsNoRight) {
  make_file(1, 0640);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, "secret").status, Status::kOk);
  EXPECT_EQ(read(handle, 0, 10, 2000).status, Status::kAcces);
  EXPECT_EQ(write(handle, 0, "x", nfs3::Stable::kUnstable, 2000).status, Status::kAcces);
  EXPECT_EQ(write(handle, 0, "", nfs3::Stable::kUnstable, 2000).status, Status::kAcces);
  // The owner may always; others as soon as the mode says so, within two seconds.
  authority.attributes({1}).mode = 0004;
  EXPECT_EQ(read(handle, 0, 10).data, "secret");
  loop_.advance(milliseconds(2100));
  EXPECT_EQ(read(handle, 0, 10, 2000).data, "secret");
  authority.attributes({1}).mode = 0;
  loop_.advance(milliseconds(2100));
  EXPECT_EQ(read(handle, 0, 10, 2000).status, Status::kAcces);
}

TEST_F(SmallFileServerTest, CommitNeedsWhatWriteNeeds) {
  make_file(1, 0640);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(hinted(1), 0, "unstable").status, Status::kOk);
  EXPECT_EQ(commit(handle, 2000).first, Status::kAcces);
  EXPECT_EQ(authority.attributes({1}).size, 0u) << "it made the server work";
  authority.attributes({1}).mode = 0642;
  EXPECT_EQ(commit(handle, 2000).first, Status::kOk) << "a permission counts as soon as it is given";
  // The owner may always: the file may have been open before a chmod.
  authority.attributes({1}).mode = 0;
  loop_.advance(milliseconds(2100));
  EXPECT_EQ(commit(handle, 2000).first, Status::kAcces);
  EXPECT_EQ(commit(handle).first, Status::kOk);
}

TEST_F(SmallFileServerTest, AReplyToWhoAskedOverUdpFitsADatagram) {
  make_file(1);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, std::string(kThreshold, 'x'), nfs3::Stable::kFileSync).status, Status::kOk);
  auto over_udp = read(handle, 0, kThreshold, 1000, true);
  EXPECT_EQ(over_udp.status, Status::kOk);
  EXPECT_EQ(over_udp.data, std::string(nfs3::kMaxUdpTransfer, 'x'));
  EXPECT_FALSE(over_udp.eof);
  EXPECT_TRUE(read(handle, kThreshold - 100, ~0u, 1000, true).eof);
  EXPECT_EQ(read(handle, 0, kThreshold).data.size(), kThreshold) << "over TCP there is room";
}

TEST_F(SmallFileServerTest, ARemovedFileIsStale) {
  make_file(1);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, "x").status, Status::kOk);
  authority.remove({1});
  EXPECT_EQ(
      manage<wire::ObjectStatusResult>(wire::ObjectProcedure::kRemove, wire::ObjectRemoveArgs{object(1)})
          .status,
      Status::kOk);
  EXPECT_EQ(read(handle, 0, 1).status, Status::kStale);
  EXPECT_EQ(write(handle, 0, "late").status, Status::kStale);
  EXPECT_EQ(commit(handle).first, Status::kStale);
  EXPECT_EQ(
      manage<wire::ObjectStatusResult>(wire::ObjectProcedure::kRemove, wire::ObjectRemoveArgs{object(1)})
          .status,
      Status::kOk);  // idempotent
  EXPECT_EQ(
      manage<wire::ObjectStatusResult>(wire::ObjectProcedure::kRemove, wire::ObjectRemoveArgs{object(99)})
          .status,
      Status::kOk);
  EXPECT_EQ(truncate_here(1, 0, 5), Status::kOk);
}

TEST_F(SmallFileServerTest, AnUnreachableAuthorityMakesClientsWaitAndLosesNothing) {
  make_file(1);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, "kept").status, Status::kOk);
  loop_.advance(std::chrono::seconds(4));
  silence("dir1");
  EXPECT_EQ(read(handle, 0, 4).status, Status::kJukebox);
  serve("dir1", authority);
  EXPECT_EQ(read(handle, 0, 4).data, "kept");
}

TEST_F(SmallFileServerTest, ADamagedBlockIsAnIoErrorAndCounted) {
  make_file(1);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, std::string(5000, 'x'), nfs3::Stable::kFileSync).status, Status::kOk);
  ASSERT_TRUE(run(server->store().save()));
  auto stat = manage<wire::ObjectStatResult>(wire::ObjectProcedure::kStat, wire::ObjectStatArgs{object(1)});
  ASSERT_EQ(stat.status, Status::kOk);
  ASSERT_EQ(stat.extents.size(), 1u);
  EXPECT_EQ(stat.end, 5000u);
  EXPECT_EQ(stat.allocated, 8192u);
  SiteId site = tables_.get()->small_file_site({1});
  stop_server();
  ASSERT_TRUE(disk_.corrupt(DiskZoneStore::path(site), stat.extents[0].place + 1234, 4));
  start_server();
  EXPECT_EQ(read(handle, 0, 100).status, Status::kIo);
  EXPECT_EQ(metrics_.counter("smallfile_damaged_blocks_total").value(), 1u);
}

TEST_F(SmallFileServerTest, ATruncateWhileAReadWaitsForTheDiskIsSeenWholeOrNotAtAll) {
  make_file(1);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, std::string(20000, 'x'), nfs3::Stable::kFileSync).status, Status::kOk);
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

TEST_F(SmallFileServerTest, ALargerVerifierSeenInACommitIsAnsweredFromThenOn) {
  make_file(1);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, "abc").status, Status::kOk);
  auto committed = manage<wire::ObjectCommitResult>(wire::ObjectProcedure::kCommit,
                                                    wire::ObjectCommitArgs{object(1), Verifier{77}});
  EXPECT_EQ(committed.status, Status::kOk);
  EXPECT_EQ(committed.verifier, Verifier{77});
  EXPECT_EQ(committed.end, 3u);
  EXPECT_EQ(write(handle, 0, "x").ok.verifier, Verifier{77});
  EXPECT_EQ(commit(handle).second.verifier, Verifier{77});
}

TEST_F(SmallFileServerTest, TheObjectProgramIsForTheEnsembleAlone) {
  rpc::XdrWriter out;
  encode(out, wire::ObjectRemoveArgs{object(1)});
  auto response = run(clients.call({.to = small,
                                    .program = wire::kObjectProgram,
                                    .version = 1,
                                    .procedure = static_cast<std::uint32_t>(wire::ObjectProcedure::kRemove),
                                    .arguments = out.take()}));
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Errc::kDenied);
  wire::ObjectName other{VolumeId{99}, {1}, wire::ObjectKind::kFile};
  EXPECT_NE(
      manage<wire::ObjectStatusResult>(wire::ObjectProcedure::kRemove, wire::ObjectRemoveArgs{other}).status,
      Status::kOk);
}

TEST_F(SmallFileServerTest, AFullDiskIsNoSpcAndReadsGoOn) {
  make_file(1);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, "here").status, Status::kOk);
  disk_.set_capacity(disk_.used_bytes() + self_.reserve_bytes / 2);
  loop_.advance(milliseconds(200));
  EXPECT_EQ(write(handle, 0, "more").status, Status::kNoSpc);
  EXPECT_EQ(server->state(), "read-only: no space");
  EXPECT_EQ(read(handle, 0, 4).data, "here");
  EXPECT_EQ(truncate(1, 0, 1), Status::kOk);
  disk_.set_capacity(std::uint64_t{1} << 40);
  EXPECT_EQ(write(handle, 0, "again").status, Status::kOk);
  EXPECT_EQ(server->state(), "serving");
}

// The proxy sends COMMIT here when it believes that the file ends below the threshold. When it has lost sight
// of bytes above, they must not be taken for committed.
TEST_F(SmallFileServerTest, CommitOfAFileWithStripesIsPassedToTheCoordinator) {
  FakeCoordinator coordinator;
  serve("coord1", coordinator);
  make_file(1);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, "below").status, Status::kOk);
  EXPECT_EQ(commit(handle).second.verifier, verifier_.largest());
  EXPECT_EQ(coordinator.commits, 0);
  // A storage node took its first bytes; what is cached here says otherwise.
  authority.file({1}).striped = true;
  auto passed = commit(handle);
  EXPECT_EQ(passed.first, Status::kOk);
  EXPECT_EQ(passed.second.verifier, Verifier{77});
  EXPECT_EQ(coordinator.commits, 1);
  ASSERT_EQ(write(handle, 0, "again").status, Status::kOk);
  EXPECT_EQ(commit(handle).second.verifier, Verifier{77});
  silence("coord1");
}

TEST_F(SmallFileServerTest, ACleanStopTellsAndSavesEverything) {
  make_file(1);
  ASSERT_EQ(write(mint(handle_of(1)), 0, "unstable").status, Status::kOk);
  bool stopped = false;
  start_void(server->stop(), [&] { stopped = true; });
  ASSERT_TRUE(loop_.run_until([&] { return stopped; }));
  EXPECT_EQ(authority.attributes({1}).size, 8u);
  stop_server();
  disk_.crash(storage::MemoryDisk::Crash::kDropUnsynced);
  start_server();
  EXPECT_EQ(read(mint(handle_of(1)), 0, 100).data, "unstable");
}

}  // namespace
}  // namespace slice::smallfile
