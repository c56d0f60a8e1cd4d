// The storage node as a whole and its object program, of files with one copy. READ and WRITE have their tests
// beside them, in ops/.
#include "storagenode/testing/server_fixture.h"

namespace slice::storagenode {
namespace {

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

TEST_F(StorageServerTest, TheBackingProgramIsForTheEnsembleAloneAndOutlivesARestart) {
  using Procedure = wire::BackingProcedure;
  auto backing = [this]<class R>(R, Procedure procedure, const auto& args) {
    auto result =
        run(service::internal_call<R>(network_, endpoint("store1"), wire::kBackingProgram, procedure, args));
    EXPECT_TRUE(result);
    return result ? *result : R{};
  };
  wire::BackingAttachArgs attach{.owner = {.server = 0, .epoch = BackingEpoch{1}, .instance = 5},
                                 .empty = true};
  rpc::XdrWriter out;
  encode(out, attach);
  auto refused = run(client.call({.to = endpoint("store1"),
                                  .program = wire::kBackingProgram,
                                  .version = wire::kInternalVersion,
                                  .procedure = static_cast<std::uint32_t>(Procedure::kAttach),
                                  .arguments = out.take()}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kDenied);
  auto attached = backing(wire::BackingAttachResult{}, Procedure::kAttach, attach);
  EXPECT_EQ(attached.status, wire::BackingStatus::kOk);
  const wire::BackingChangeArgs change{
      attach.owner,
      1,
      true,
      {{.op = wire::BackingOp::kWrite, .path = "log/1", .bytes = as_bytes("kept")},
       {.op = wire::BackingOp::kSync, .path = "log/1"}}};
  EXPECT_EQ(backing(wire::BackingChangeResult{}, Procedure::kChange, change).status,
            wire::BackingStatus::kOk);
  EXPECT_EQ(
      backing(wire::BackingStatusResult{}, Procedure::kLetGo, wire::BackingOwnerArgs{attach.owner}).status,
      wire::BackingStatus::kOk);
  EXPECT_TRUE(object<wire::ObjectListResult>(wire::ObjectProcedure::kList, wire::ObjectListArgs{{}, 10})
                  ->objects.empty());
  stop_server();
  start_server();
  attach = {.owner = {.server = 0, .epoch = BackingEpoch{2}, .instance = 6}};
  attached = backing(attached, Procedure::kAttach, attach);
  EXPECT_EQ(attached.status, wire::BackingStatus::kOk);
  EXPECT_EQ(attached.changed, BackingEpoch{1});
  rpc::XdrWriter read;
  encode(read, wire::BackingReadArgs{attach.owner, "log/1", 1, 100, 0});
  auto response = run(network_.call({.to = endpoint("store1"),
                                     .program = wire::kBackingProgram,
                                     .version = wire::kInternalVersion,
                                     .procedure = static_cast<std::uint32_t>(Procedure::kRead),
                                     .arguments = read.take()}));
  wire::BackingReadResult result;
  ASSERT_TRUE(decode(response->results(), result));
  EXPECT_EQ(as_text(result.bytes), "ept");
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

}  // namespace
}  // namespace slice::storagenode
