// The storage node's programs: READ, WRITE and the object program, of files with one copy.
#include "storagenode/testing/server_fixture.h"

namespace slice::storagenode {
namespace {

TEST_F(StorageServerTest, WritesAndReadsBack) {
  Buffer data = bytes_of(10'000, 1);
  auto written = write(kThreshold, data.view());
  ASSERT_EQ(written.status, NfsStatus::kOk);
  EXPECT_EQ(written.ok.count, 10'000u);
  EXPECT_EQ(written.ok.committed, Stable::kUnstable);
  EXPECT_EQ(written.ok.verifier, Verifier{1});
  EXPECT_FALSE(written.ok.wcc.before) << "nobody here can know it atomically";
  EXPECT_FALSE(written.ok.wcc.after) << "nobody said that a proxy will patch it";
  auto got = read(kThreshold, 10'000);
  EXPECT_EQ(got.data, text(data));
  EXPECT_TRUE(got.ok.eof);
  EXPECT_FALSE(got.ok.attributes);
}

TEST_F(StorageServerTest, TheFirstWriteTellsOfStripesBeforeItIsAnswered) {
  EXPECT_FALSE(authority.file(FileId{42}).striped);
  write(kThreshold, as_bytes("abcd"));
  EXPECT_TRUE(authority.file(FileId{42}).striped);
  EXPECT_EQ(authority.striped_fetches, 1u);
  write(kThreshold + 4, as_bytes("efgh"));
  EXPECT_EQ(authority.striped_fetches, 1u) << "once is enough";
}

TEST_F(StorageServerTest, NothingIsAnsweredWhileTheAuthorityIsAway) {
  silence("dir1");
  EXPECT_EQ(write(kThreshold, as_bytes("abcd")).status, NfsStatus::kJukebox);
  EXPECT_EQ(read(kThreshold, 4).status, NfsStatus::kJukebox);
}

TEST_F(StorageServerTest, PermissionsAreCheckedHere) {
  write(kThreshold, as_bytes("abcd"));
  EXPECT_EQ(write(kThreshold, as_bytes("x"), Stable::kUnstable, 0, 2000).status, NfsStatus::kAcces);
  EXPECT_EQ(read(kThreshold, 4, 0, 2000).status, NfsStatus::kOk) << "0644";
  authority.file(FileId{42}).attributes.mode = 0600;
  loop_.advance(std::chrono::milliseconds(2100));
  EXPECT_EQ(read(kThreshold, 4, 0, 2000).status, NfsStatus::kAcces) << "within two seconds";
  EXPECT_EQ(read(kThreshold, 4, 0, 1000).status, NfsStatus::kOk);
}

TEST_F(StorageServerTest, AReplyToWhoAskedOverUdpFitsADatagram) {
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

TEST_F(StorageServerTest, EofExactlyAtTheEndAndHolesAreZeros) {
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

TEST_F(StorageServerTest, WhatOthersHoldIsAHoleHereAndNotTheEnd) {
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

TEST_F(StorageServerTest, TheHintsSizeSparesTheQuestion) {
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

TEST_F(StorageServerTest, RoomOnlyWhereTheProxyFillsItAndOneMtimeEverywhere) {
  loop_.advance(std::chrono::seconds(3));
  auto written = write(kThreshold, as_bytes("abcd"), Stable::kFileSync, kCanPatch);
  ASSERT_TRUE(written.ok.wcc.after);
  EXPECT_EQ(written.ok.wcc.after->size, kThreshold + 4);
  EXPECT_EQ(written.ok.wcc.after->fileid, FileId{42});
  EXPECT_EQ(written.ok.wcc.after->used, kThreshold + 4) << "where this WRITE ended";
  EXPECT_EQ(written.ok.wcc.after->mtime, authority.file(FileId{42}).attributes.mtime);
  auto got = read(kThreshold, 4, kCanPatch);
  ASSERT_TRUE(got.ok.attributes);
  EXPECT_EQ(got.ok.attributes->nlink, 0u);
  EXPECT_EQ(got.ok.attributes->mtime, (nfs3::Time{}));
  EXPECT_EQ(got.ok.attributes->atime, nfs3::time_of(loop_.wall()));
  EXPECT_EQ(got.ok.attributes->size, kThreshold + 4);
  EXPECT_EQ(got.data, "abcd");
  EXPECT_EQ(write(kThreshold, as_bytes("ab"), Stable::kFileSync, kCanPatch).ok.wcc.after->used,
            kThreshold + 2);
  EXPECT_FALSE(write(kThreshold + 4, as_bytes("efgh")).ok.wcc.after);
  EXPECT_EQ(authority.file(FileId{42}).attributes.size, kThreshold + 8) << "where the client asks next";
}

TEST_F(StorageServerTest, StableWritesTellTheSizeFirstUnstableOnesWithinASecond) {
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

TEST_F(StorageServerTest, OffsetsAtTheEndsOfNumbers) {
  constexpr std::uint64_t kMax = (std::uint64_t{1} << 63) - 1;
  EXPECT_EQ(write(kMax, as_bytes("x")).status, NfsStatus::kFbig);
  EXPECT_EQ(write(std::uint64_t{1} << 63, as_bytes("x")).status, NfsStatus::kFbig);
  EXPECT_EQ(write(~std::uint64_t{0}, as_bytes("x")).status, NfsStatus::kFbig);
  auto last = write(kMax - 2, as_bytes("xyz"), Stable::kFileSync);
  ASSERT_EQ(last.status, NfsStatus::kOk);
  EXPECT_EQ(last.ok.count, 2u) << "the last byte a file may have";
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

TEST_F(StorageServerTest, CountsOfZeroAndBeyondTheLargestTransfer) {
  auto none = write(kThreshold, {});
  EXPECT_EQ(none.status, NfsStatus::kOk);
  EXPECT_EQ(none.ok.count, 0u);
  EXPECT_FALSE(authority.file(FileId{42}).striped) << "nothing was made for it";
  Buffer data = bytes_of(1 << 20, 3);
  ASSERT_EQ(write(1 << 20, data.view()).ok.count, 1u << 20);
  auto got = read(1 << 20, 0xffffffff);
  EXPECT_EQ(got.data, text(data));
}

TEST_F(StorageServerTest, OnlyRegularFiles) {
  handle.type = nfs3::FileType::kDirectory;
  EXPECT_EQ(read(kThreshold, 4).status, NfsStatus::kIsDir);
  EXPECT_EQ(write(kThreshold, as_bytes("x")).status, NfsStatus::kIsDir);
  handle.type = nfs3::FileType::kSymlink;
  EXPECT_EQ(read(kThreshold, 4).status, NfsStatus::kInval);
}

TEST_F(StorageServerTest, ARemovedFileIsStaleAndItsHandleNeverShowsAnothersBytes) {
  write(kThreshold, as_bytes("secret"), Stable::kFileSync);
  authority.remove(FileId{42});
  ASSERT_TRUE(
      object<wire::ObjectStatusResult>(wire::ObjectProcedure::kRemove, wire::ObjectRemoveArgs{name()}));
  EXPECT_EQ(read(kThreshold, 6).status, NfsStatus::kStale);
  EXPECT_EQ(write(kThreshold, as_bytes("x")).status, NfsStatus::kStale);
  EXPECT_TRUE(
      object<wire::ObjectListResult>(wire::ObjectProcedure::kList, wire::ObjectListArgs{})->objects.empty());
}

TEST_F(StorageServerTest, ARestartLosesUnstableBytesAndShowsItByItsVerifier) {
  write(kThreshold, as_bytes("stable"), Stable::kFileSync);
  write(kThreshold, as_bytes("UNSTAB"));
  Verifier before = write(kThreshold + 100, as_bytes("x")).ok.verifier;
  disk_.crash(storage::MemoryDisk::Crash::kDropUnsynced);
  server->node().store.halt();
  spawn(server->stop());
  retired.push_back(std::move(server));
  verifier_.see(Verifier{2});  // drawn at start
  start_server();
  EXPECT_EQ(read(kThreshold, 6).data, "stable");
  auto committed = commit();
  EXPECT_EQ(committed.status, NfsStatus::kOk);
  Verifier after = committed.verifier;
  EXPECT_GT(after, before);
  EXPECT_EQ(write(kThreshold, as_bytes("again!")).ok.verifier, after) << "one verifier in a steady state";
}

TEST_F(StorageServerTest, AFailedFsyncDrawsANewVerifier) {
  Verifier before = write(kThreshold, as_bytes("abcdef")).ok.verifier;
  unsigned failures = 1;
  disk_.set_fault([&failures](const storage::MemoryDisk::Access& access) -> std::optional<Error> {
    bool hit = access.operation == storage::MemoryDisk::Operation::kSync &&
               access.path.starts_with("objects/") && failures > 0 && failures-- > 0;
    if (!hit) return std::nullopt;
    return Error{Errc::kIo, "injected"};
  });
  auto committed = commit();
  EXPECT_EQ(committed.status, NfsStatus::kOk);
  Verifier after = committed.verifier;
  EXPECT_EQ(after, Verifier{101});
  EXPECT_GT(after, before) << "so the client writes again";
}

// Whatever of healing it did: what was acknowledged as stable is there, and what was not shows by a verifier.
TEST_F(StorageServerTest, ACrashWhileAFailedFsyncIsHealed) {
  std::uint64_t verifier = 2;
  for (std::string_view point : {"heal.failed", "heal.renewed", "heal.healed"}) {
    write(kThreshold, as_bytes("stable"), Stable::kFileSync);
    Verifier before = write(kThreshold + 4096, as_bytes("UNSTAB")).ok.verifier;
    bool failed = false, died = false;
    disk_.set_fault([&failed](const storage::MemoryDisk::Access& access) -> std::optional<Error> {
      bool hit = access.operation == storage::MemoryDisk::Operation::kSync &&
                 access.path.starts_with("objects/") && !std::exchange(failed, true);
      if (!hit) return std::nullopt;
      return Error{Errc::kIo, "injected"};
    });
    crash_points_.set([&](std::string_view reached) { return died = died || reached == point; });
    start(service::internal_call<wire::ObjectCommitResult>(network_, endpoint("store1"), wire::kObjectProgram,
                                                           wire::ObjectProcedure::kCommit,
                                                           wire::ObjectCommitArgs{.object = name()}),
          [](const Result<wire::ObjectCommitResult>& result) { EXPECT_FALSE(result) << "it has died"; });
    ASSERT_TRUE(loop_.run_until([&] { return died; })) << point;
    disk_.crash(storage::MemoryDisk::Crash::kDropUnsynced);
    server->node().store.halt();
    spawn(server->stop());
    retired.push_back(std::move(server));
    loop_.advance(std::chrono::seconds(10));
    disk_.set_fault({});
    crash_points_.set({});
    verifier = std::max(manager.drawn, verifier) + 1;
    manager.drawn = verifier;
    verifier_.see(Verifier{verifier});  // drawn at start
    start_server();
    EXPECT_EQ(read(kThreshold, 6).data, "stable") << point;
    auto lost = read(kThreshold + 4096, 6);
    EXPECT_EQ(lost.status, NfsStatus::kOk) << point;
    EXPECT_GT(commit().verifier, before) << point;
  }
}

TEST_F(StorageServerTest, CorruptedBlocksAreErrorsNeverData) {
  write(kThreshold, bytes_of(8192, 1).view(), Stable::kFileSync);
  ASSERT_TRUE(disk_.corrupt(head_path(name()), kDataStart + kThreshold + 5000, 8));
  EXPECT_EQ(read(kThreshold, 8192).status, NfsStatus::kIo);
  EXPECT_EQ(read(kThreshold, 4096).status, NfsStatus::kOk);
  EXPECT_EQ(metrics_.counter("store_checksum_errors_total").value(), 1u);
}

TEST_F(StorageServerTest, AFullDiskIsNospcAndRecovers) {
  write(kThreshold, as_bytes("abcd"), Stable::kFileSync);
  disk_.set_capacity(disk_.used_bytes());
  EXPECT_EQ(write(1 << 20, as_bytes("x")).status, NfsStatus::kNoSpc);
  EXPECT_EQ(read(kThreshold, 4).data, "abcd");
  disk_.set_capacity(1 << 30);
  EXPECT_EQ(write(1 << 20, as_bytes("x")).status, NfsStatus::kOk);
}

TEST_F(StorageServerTest, TheObjectProgramIsForTheEnsembleAlone) {
  rpc::XdrWriter out;
  encode(out, wire::ObjectRemoveArgs{name()});
  auto refused = run(client.call({.to = endpoint("store1"),
                                  .program = wire::kObjectProgram,
                                  .version = wire::kInternalVersion,
                                  .procedure = static_cast<std::uint32_t>(wire::ObjectProcedure::kRemove),
                                  .arguments = out.take()}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kDenied);
}

TEST_F(StorageServerTest, TruncateStatListCommitThroughTheObjectProgram) {
  write(kThreshold, bytes_of(100'000, 1).view());
  auto stat = object<wire::ObjectStatResult>(wire::ObjectProcedure::kStat, wire::ObjectStatArgs{name()});
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->status, NfsStatus::kOk);
  EXPECT_EQ(stat->end, kThreshold + 100'000);
  ASSERT_EQ(stat->extents.size(), 1u);
  EXPECT_EQ(stat->extents[0].offset, kThreshold);
  auto committed = object<wire::ObjectCommitResult>(wire::ObjectProcedure::kCommit,
                                                    wire::ObjectCommitArgs{name(), Verifier{50}});
  ASSERT_TRUE(committed);
  EXPECT_EQ(committed->verifier, Verifier{50}) << "the larger one is adopted";
  EXPECT_EQ(committed->end, kThreshold + 100'000);
  EXPECT_GT(committed->mtime, nfs3::Time{});
  authority.truncate(FileId{42}, kThreshold + 10);
  ASSERT_EQ(object<wire::ObjectStatusResult>(wire::ObjectProcedure::kTruncate,
                                             wire::ObjectTruncateArgs{name(), kThreshold + 10, Epoch{1}})
                ->status,
            NfsStatus::kOk);
  auto got = read(kThreshold, 100);
  EXPECT_EQ(got.ok.count, 10u) << "what was known of the file is forgotten";
  EXPECT_TRUE(got.ok.eof);
  auto listed = object<wire::ObjectListResult>(wire::ObjectProcedure::kList, wire::ObjectListArgs{{}, 10});
  EXPECT_EQ(listed->objects, std::vector<ObjectName>{name()});
  auto unknown = name();
  unknown.fileid = FileId{7};
  EXPECT_EQ(
      object<wire::ObjectStatResult>(wire::ObjectProcedure::kStat, wire::ObjectStatArgs{unknown})->status,
      NfsStatus::kNoEnt);
}

TEST_F(StorageServerTest, ManagersReadAndWriteTheirOwnObjects) {
  ObjectName zone{config_.volume.id, FileId{5}, ObjectKind::kZone};
  auto written = object<wire::ObjectWriteResult>(wire::ObjectProcedure::kWrite,
                                                 wire::ObjectWriteArgs{zone, 100, true, as_bytes("zone")});
  ASSERT_TRUE(written);
  EXPECT_EQ(written->status, NfsStatus::kOk);
  rpc::XdrWriter out;
  encode(out, wire::ObjectReadArgs{zone, 98, 100});
  auto response = run(network_.call({.to = endpoint("store1"),
                                     .program = wire::kObjectProgram,
                                     .version = wire::kInternalVersion,
                                     .procedure = static_cast<std::uint32_t>(wire::ObjectProcedure::kRead),
                                     .arguments = out.take()}));
  wire::ObjectReadResult result;
  ASSERT_TRUE(decode(response->results(), result));
  EXPECT_EQ(as_text(result.data), std::string("\0\0zone", 6));
  EXPECT_TRUE(result.eof);
  EXPECT_EQ(authority.fetches, 0u);
}

// Two storage nodes: stripes of the other one are not touched here.
class TwoNodesTest : public StorageServerTest {
 protected:
  TwoNodesTest() : StorageServerTest(sample_config()) {}
  bool ours(std::uint64_t offset) const {
    return tables_.get()->owns(self_.index, wire::Role::kStorage,
                               tables_.get()->storage_site(handle.fileid, offset, handle.stripe_shift));
  }
};

TEST_F(TwoNodesTest, TransfersEndWhereTheStripesOfAnotherNodeBegin) {
  constexpr std::uint64_t kUnit = 64 << 10;
  std::uint64_t offset = kThreshold;
  while (!ours(offset) || ours(offset + kUnit)) offset += kUnit;
  Buffer data = bytes_of(2 * kUnit, 1);
  auto written = write(offset + 1000, data.view());
  ASSERT_EQ(written.status, NfsStatus::kOk);
  EXPECT_EQ(written.ok.count, kUnit - 1000);
  authority.file(FileId{42}).attributes.size = offset + 2 * kUnit;
  auto got = read(offset + 1000, 2 * kUnit);
  EXPECT_EQ(got.ok.count, kUnit - 1000);
  EXPECT_FALSE(got.ok.eof);
  EXPECT_EQ(got.data, text(data).substr(0, kUnit - 1000));
  EXPECT_EQ(write(offset + kUnit, data.view()).status, NfsStatus::kJukebox) << "misdirected";
  EXPECT_EQ(read(offset + kUnit, 10).status, NfsStatus::kJukebox);
}

TEST_F(TwoNodesTest, BelowTheThresholdIsNotOurs) {
  EXPECT_EQ(read(kThreshold - 1, 10).status, NfsStatus::kJukebox);
  EXPECT_EQ(write(0, as_bytes("x")).status, NfsStatus::kJukebox);
}

}  // namespace
}  // namespace slice::storagenode
