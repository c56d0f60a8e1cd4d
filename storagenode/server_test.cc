// The storage node's programs, over the whole codec, with a fake directory server and a disk in memory.
#include "storagenode/server.h"

#include <gtest/gtest.h>

#include "bpf/shared/file_handle.h"
#include "routing/copies.h"
#include "service/internal_call.h"
#include "service/testing/fake_authority.h"
#include "service/testing/service_fixture.h"
#include "storagenode/store_harness.h"
#include "wire/coordinator.h"
#include "wire/manager.h"

namespace slice::storagenode {
namespace {

using nfs3::Procedure;
using nfs3::Stable;
using service::testing::FakeAuthority;
using service::testing::sample_config;
using service::testing::ServiceFixture;
using NfsStatus = nfs3::Status;

constexpr std::uint64_t kThreshold = 64 << 10;

// Answers every draw with a larger number.
class FakeManager : public rpc::Program {
 public:
  std::uint32_t number() const override { return wire::kManagerProgram; }
  std::uint32_t version() const override { return wire::kInternalVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override {
    if (call.procedure != static_cast<std::uint32_t>(wire::ManagerProcedure::kDrawVerifier)) {
      co_return rpc::Outcome::kNoProcedure;
    }
    encode(results, wire::DrawVerifierResult{Verifier{++drawn}});
    co_return rpc::Outcome::kReply;
  }
  std::uint64_t drawn = 100;
};

EnsembleConfig one_store() {
  EnsembleConfig config = sample_config();
  std::erase_if(config.servers, [](const auto& server) { return server.name == "store2"; });
  for (std::uint32_t i = 0; i < config.servers.size(); ++i) {
    config.servers[i].index = i;
    config.servers[i].reserve_bytes = 0;
  }
  return config;
}

class StorageServerTest : public ServiceFixture {
 protected:
  explicit StorageServerTest(EnsembleConfig config = one_store())
      : ServiceFixture("store1", std::move(config)) {
    serve("dir1", authority);
    serve("manager1", manager);
    start_server();
    handle = authority.add(FileId{42});
  }
  ~StorageServerTest() override {
    stop_server();
    loop_.advance(std::chrono::seconds(2));  // what is under way ends by its time-out
  }

  void start_server() {
    server = std::make_unique<StorageServer>(context_);
    ASSERT_TRUE(run(server->start()));
    dispatchers.push_back(std::make_unique<rpc::Dispatcher>(config_.ensemble_key, metrics_));
    for (auto* program : server->programs()) dispatchers.back()->add(*program);
    network_.attach(endpoint("store1"), dispatchers.back().get());
    client.attach(endpoint("store1"), dispatchers.back().get());
  }
  void stop_server() {
    bool ended = false;
    start_void(server->stop(), [&ended] { ended = true; });
    EXPECT_TRUE(loop_.run_until([&ended] { return ended; }));
    network_.attach(endpoint("store1"), nullptr);
    client.attach(endpoint("store1"), nullptr);
    retired.push_back(std::move(server));
  }

  // What a proxy may stamp on the handle's hint (decision 2 of docs/architecture.md): it is not sealed.
  routing::HandleBytes stamped(const routing::FileHandle& of, std::uint64_t hint) {
    auto bytes = handles_.mint(of);
    store_be(bytes.data() + 32, hint);
    return bytes;
  }
  static constexpr std::uint64_t kCanPatch = std::uint64_t{1} << 63, kSizeValid = std::uint64_t{1} << 62;

  template <class Args>
  Result<rpc::Response> call(Procedure procedure, const Args& args, std::uint32_t uid = 1000) {
    rpc::XdrWriter out;
    nfs3::encode_arguments(out, args);
    rpc::AuthSys who;
    who.uid = who.gid = uid;
    rpc::Request request{.to = endpoint("store1"),
                         .program = nfs3::kProgram,
                         .version = nfs3::kVersion,
                         .procedure = static_cast<std::uint32_t>(procedure),
                         .arguments = out.take(),
                         .timeout = std::chrono::seconds(20),
                         .credential = who};
    return run(client.call(std::move(request)));
  }
  struct ReadReply {
    NfsStatus status{};
    nfs3::ReadOk ok;
    std::string data;
  };
  ReadReply read(std::uint64_t offset, std::uint32_t count, std::uint64_t hint = 0,
                 std::uint32_t uid = 1000) {
    auto bytes = stamped(handle, hint);
    auto response = call(Procedure::kRead, nfs3::ReadArgs{bytes, offset, count}, uid);
    EXPECT_TRUE(response) << response.error().message;
    ReadReply reply;
    rpc::XdrReader in(response->results());
    EXPECT_TRUE(nfs3::decode_result(in, reply.status, reply.ok) && in.complete());
    reply.data = std::string(as_text(reply.ok.data));
    if (reply.status == NfsStatus::kOk) EXPECT_EQ(reply.data.size(), reply.ok.count);
    return reply;
  }
  struct WriteReply {
    NfsStatus status{};
    nfs3::WriteOk ok;
  };
  WriteReply write(std::uint64_t offset, ByteView data, Stable stable = Stable::kUnstable,
                   std::uint64_t hint = 0, std::uint32_t uid = 1000) {
    auto bytes = stamped(handle, hint);
    auto response =
        call(Procedure::kWrite,
             nfs3::WriteArgs{bytes, offset, static_cast<std::uint32_t>(data.size()), stable, data}, uid);
    EXPECT_TRUE(response) << response.error().message;
    WriteReply reply;
    rpc::XdrReader in(response->results());
    EXPECT_TRUE(nfs3::decode_result(in, reply.status, reply.ok) && in.complete());
    return reply;
  }
  // As the coordinator does it.
  wire::ObjectCommitResult commit() {
    auto result = object<wire::ObjectCommitResult>(wire::ObjectProcedure::kCommit,
                                                   wire::ObjectCommitArgs{.object = name()});
    EXPECT_TRUE(result);
    return result ? *result : wire::ObjectCommitResult{.status = NfsStatus::kServerFault};
  }
  template <class R, class Args>
  Result<R> object(wire::ObjectProcedure procedure, const Args& args) {
    return run(
        service::internal_call<R>(network_, endpoint("store1"), wire::kObjectProgram, procedure, args));
  }
  ObjectName name() const { return {config_.volume.id, handle.fileid, ObjectKind::kFile}; }

  FakeAuthority authority{loop_, handles_};
  FakeManager manager;
  std::unique_ptr<StorageServer> server;
  std::vector<std::unique_ptr<StorageServer>> retired;
  std::vector<std::unique_ptr<rpc::Dispatcher>> dispatchers;
  routing::FileHandle handle;
  // A client: its calls are not sealed.
  rpc::InProcessNetwork client{loop_, std::nullopt, rpc::Endpoint{0x0a4d0102, 900}};
};

Buffer bytes_of(std::size_t n, std::uint64_t seed) {
  return pattern(n, seed);
}
std::string text(const Buffer& bytes) {
  return std::string(as_text(bytes.view()));
}

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
  EXPECT_EQ(written.ok.wcc.after->mtime, authority.file(FileId{42}).attributes.mtime);
  auto got = read(kThreshold, 4, kCanPatch);
  ASSERT_TRUE(got.ok.attributes);
  EXPECT_EQ(got.ok.attributes->nlink, 0u);
  EXPECT_EQ(got.ok.attributes->mtime, (nfs3::Time{}));
  EXPECT_EQ(got.ok.attributes->atime, nfs3::time_of(loop_.wall()));
  EXPECT_EQ(got.ok.attributes->size, kThreshold + 4);
  EXPECT_EQ(got.data, "abcd");
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

// A coordinator whose files miss nothing, but where a test says so.
class FakeCoordinator : public rpc::Program {
 public:
  std::uint32_t number() const override { return wire::kCoordinatorProgram; }
  std::uint32_t version() const override { return wire::kInternalVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override {
    switch (static_cast<wire::CoordinatorProcedure>(call.procedure)) {
      case wire::CoordinatorProcedure::kSession:
        encode(results,
               wire::SessionResult{.session = session, .milliseconds = 3000, .version = layout.version});
        co_return rpc::Outcome::kReply;
      case wire::CoordinatorProcedure::kLayout:
        encode(results, wire::LayoutResult{.layout = layout});
        co_return rpc::Outcome::kReply;
      case wire::CoordinatorProcedure::kMissed:
        ++missed;
        encode(results, wire::CoordinatorResult{});
        co_return rpc::Outcome::kReply;
      default:
        co_return rpc::Outcome::kNoProcedure;
    }
  }
  std::uint64_t session = 1;
  unsigned missed = 0;
  wire::FileLayout layout{.version = 10, .changed = 10, .others_order_since = 5};
};

// The object program of the node with the other copy.
class FakeCopy : public rpc::Program {
 public:
  std::uint32_t number() const override { return wire::kObjectProgram; }
  std::uint32_t version() const override { return wire::kInternalVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override {
    if (call.procedure == static_cast<std::uint32_t>(wire::ObjectProcedure::kNull)) {
      co_return rpc::Outcome::kReply;
    }
    if (call.procedure != static_cast<std::uint32_t>(wire::ObjectProcedure::kForward)) {
      co_return rpc::Outcome::kNoProcedure;
    }
    ++forwards;
    encode(results, wire::ForwardResult{});
    co_return rpc::Outcome::kReply;
  }
  unsigned forwards = 0;
};

// A file with two copies, and a stripe of it whose first one is here.
class MirroredFileTest : public StorageServerTest {
 protected:
  MirroredFileTest() : StorageServerTest(sample_config()) {
    serve("coord1", coordinator);
    serve("store2", copy);
    handle.flags = SLICE_HANDLE_MIRRORED;
    const auto& tables = *tables_.get();
    while (routing::copies_of_stripe(tables, {}, handle, stripe).all.front() != self_.index) ++stripe;
    loop_.advance(std::chrono::milliseconds(1100));  // it has a session
  }
  WriteReply write_stripe(std::string_view data) {
    return write(stripe << handle.stripe_shift, as_bytes(data));
  }
  // A write that waits here, as it comes; `meanwhile` happens then.
  WriteReply write_late(std::string_view data, const std::function<void()>& meanwhile) {
    authority.truncating = true;
    loop_.after(std::chrono::milliseconds(50), [&] {
      meanwhile();
      loop_.after(std::chrono::milliseconds(1500), [&] { authority.truncating = false; });
    });
    return write_stripe(data);
  }
  void recall() { spawn(recalled(wire::RecallArgs{handle.fileid, coordinator.layout.changed})); }
  Task<void> recalled(wire::RecallArgs args) {
    auto result = co_await service::internal_call<wire::ObjectStatusResult>(
        network_, endpoint("store1"), wire::kObjectProgram, wire::ObjectProcedure::kRecall, args);
    EXPECT_TRUE(result);
  }

  FakeCoordinator coordinator;
  FakeCopy copy;
  std::uint64_t stripe = 0;
};

TEST_F(MirroredFileTest, AWriteGoesToBothCopies) {
  EXPECT_EQ(write_stripe("abcd").status, NfsStatus::kOk);
  EXPECT_EQ(copy.forwards, 1u);
}

// The other copy may have done it, and later ones, while this one was missing, though its session lasted.
TEST_F(MirroredFileTest, AWriteThatWaitedWhileThisCopyWasMissingIsNotDone) {
  auto late = write_late("late", [&] {
    coordinator.layout.version = coordinator.layout.changed = 21;
    coordinator.layout.orders_since = {{.server = self_.index, .version = 21}};  // it is whole again
    recall();
  });
  EXPECT_EQ(late.status, NfsStatus::kJukebox);
  EXPECT_EQ(copy.forwards, 0u);
  EXPECT_EQ(write_stripe("next").status, NfsStatus::kOk) << "what comes now is done";
  EXPECT_EQ(copy.forwards, 1u);
}

// It has been on its way from another node all the while, and this one may have started since.
TEST_F(MirroredFileTest, AWriteThatWasPassedOnBeforeThisCopyWasMissingIsNotDone) {
  auto passed_on = [&](std::uint64_t version_there) {
    auto bytes = handles_.mint(handle);
    rpc::XdrWriter out;
    nfs3::encode_arguments(
        out, nfs3::WriteArgs{bytes, stripe << handle.stripe_shift, 4, Stable::kUnstable, as_bytes("late")});
    rpc::AuthSys who;
    who.uid = who.gid = 1000;
    auto response = run(network_.call({.to = endpoint("store1"),
                                       .program = nfs3::kProgram,
                                       .version = nfs3::kVersion,
                                       .procedure = static_cast<std::uint32_t>(Procedure::kWrite),
                                       .arguments = out.take(),
                                       .credential = who,
                                       .on_behalf = {.client = {0x0a4d0102, 900},
                                                     .xid = Xid{static_cast<std::uint32_t>(version_there)},
                                                     .relays = 1,
                                                     .layout_version = version_there}}));
    EXPECT_TRUE(response);
    return static_cast<NfsStatus>(load_be<std::uint32_t>(response->results().data()));
  };
  coordinator.layout.version = coordinator.layout.changed = 21;
  coordinator.layout.orders_since = {{.server = self_.index, .version = 21}};
  EXPECT_EQ(passed_on(20), NfsStatus::kJukebox);
  EXPECT_EQ(copy.forwards, 0u);
  EXPECT_EQ(passed_on(21), NfsStatus::kOk);
  EXPECT_EQ(copy.forwards, 1u);
}

TEST_F(MirroredFileTest, WhatAnotherCopyMissedMeanwhileDoesNotMatter) {
  auto late = write_late("late", [&] {
    coordinator.layout.version = coordinator.layout.changed = 21;
    coordinator.layout.orders_since = {{.server = config_.find("store2")->index, .version = 21}};
    recall();
  });
  EXPECT_EQ(late.status, NfsStatus::kOk);
  EXPECT_EQ(copy.forwards, 1u);
}

// A session may end by delay alone: then nobody has written without this copy.
TEST_F(MirroredFileTest, AWriteOutlivesASessionWhileWhichNothingWasMissed) {
  auto late = write_late("late", [&] { coordinator.session = 2; });
  EXPECT_EQ(late.status, NfsStatus::kOk);
  EXPECT_EQ(metrics_.counter("mirror_sessions_lost_total").value(), 1u);
}

// Its renewals were late: it is soon there again, and whoever is told to come again comes much later.
TEST_F(MirroredFileTest, ARequestWaitsForASessionThatHasEnded) {
  ASSERT_EQ(write_stripe("abcd").status, NfsStatus::kOk);
  silence("coord1");
  loop_.advance(std::chrono::seconds(5));
  loop_.after(std::chrono::seconds(2), [this] { serve("coord1", coordinator); });
  EXPECT_EQ(write_stripe("efgh").status, NfsStatus::kOk);
  silence("coord1");
  loop_.advance(std::chrono::seconds(5));
  MonoTime before = loop_.now();
  EXPECT_EQ(write_stripe("ijkl").status, NfsStatus::kJukebox) << "not for ever";
  EXPECT_LT(loop_.now() - before, std::chrono::seconds(5)) << "before whoever forwards it gives up";
}

// Else every stripe's first write would wait for it.
TEST_F(MirroredFileTest, ANodeThatWasSilentIsNotWaitedForUntilItAnswersAgain) {
  auto seconds_of_a_write = [&] {
    MonoTime before = loop_.now();
    EXPECT_EQ(write_stripe("abcd").status, NfsStatus::kOk);
    return std::chrono::duration<double>(loop_.now() - before).count();
  };
  silence("store2");
  EXPECT_GT(seconds_of_a_write(), 4.9);
  for (int i = 0; i < 5; ++i) {
    EXPECT_LT(seconds_of_a_write(), 0.1);
    loop_.advance(std::chrono::seconds(4));
  }
  EXPECT_EQ(coordinator.missed, 6u) << "each of them is noted";
  serve("store2", copy);
  loop_.advance(std::chrono::seconds(3));
  EXPECT_LT(seconds_of_a_write(), 0.1);
  EXPECT_EQ(copy.forwards, 1u);
  EXPECT_EQ(coordinator.missed, 6u);
}

// It forgets what it knew of files: all are taken to have been ordered elsewhere.
TEST_F(MirroredFileTest, AWriteThatCameBeforeItsCoordinatorStartedIsNotDone) {
  auto late = write_late("late", [&] {
    coordinator.session = 2;
    coordinator.layout = {.version = 40, .changed = 40, .others_order_since = 40};
  });
  EXPECT_EQ(late.status, NfsStatus::kJukebox);
  EXPECT_EQ(copy.forwards, 0u);
}

}  // namespace
}  // namespace slice::storagenode
