// READ, WRITE, COMMIT and the object program as clients and managers see them: through the whole codec, with
// a fake authority.
#include "smallfile/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "service/internal_call.h"
#include "service/testing/service_fixture.h"
#include "storage/memory_store.h"

namespace slice::smallfile {
namespace {

using nfs3::Status;
using std::chrono::milliseconds;

constexpr std::uint64_t kThreshold = 65536;

// Keeps attributes of files, merges as a directory server does.
class FakeAuthority : public rpc::Program {
 public:
  explicit FakeAuthority(const routing::HandleCodec& handles) : handles_(handles) {}
  std::uint32_t number() const override { return wire::kAuthorityProgram; }
  std::uint32_t version() const override { return wire::kInternalVersion; }

  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override {
    EXPECT_TRUE(call.internal);
    wire::FetchResult result;
    if (call.procedure == static_cast<std::uint32_t>(wire::AuthorityProcedure::kFetch)) {
      wire::FetchArgs args;
      EXPECT_TRUE(wire::decode(call.arguments, args));
      ++fetches;
      result = answer(args.handle);
    } else {
      wire::MergeArgs args;
      EXPECT_TRUE(wire::decode(call.arguments, args));
      ++merges;
      if (nfs3::Attributes* file = find(args.handle)) {
        if (args.epoch.value >= file->rdev_major) file->size = std::max(file->size, args.size);
        if (args.mtime) file->mtime = std::max(file->mtime, *args.mtime);
      }
      result = answer(args.handle);
    }
    encode(results, result);
    co_return rpc::Outcome::kReply;
  }
  nfs3::Attributes* find(ByteView handle) {
    auto opened = handles_.open(handle);
    if (!opened) return nullptr;
    auto found = files.find(opened->fileid.value);
    return found == files.end() ? nullptr : &found->second;
  }
  wire::FetchResult answer(ByteView handle) {
    nfs3::Attributes* file = find(handle);
    return file != nullptr ? wire::FetchResult{Status::kOk, *file, striped.contains(file->fileid.value)}
                           : wire::FetchResult{.status = Status::kStale};
  }

  std::map<std::uint64_t, nfs3::Attributes> files;
  std::set<std::uint64_t> striped;
  int fetches = 0, merges = 0;

 private:
  const routing::HandleCodec& handles_;
};

// A coordinator that answers every COMMIT with verifier 77.
class FakeCoordinator : public rpc::Program {
 public:
  std::uint32_t number() const override { return nfs3::kProgram; }
  std::uint32_t version() const override { return nfs3::kVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override {
    EXPECT_TRUE(call.internal);
    nfs3::CommitArgs args;
    EXPECT_TRUE(nfs3::decode_arguments(call.arguments, args));
    ++commits;
    nfs3::encode_result(results, nfs3::CommitOk{.verifier = Verifier{77}});
    co_return rpc::Outcome::kReply;
  }
  int commits = 0;
};

class SmallFileServerTest : public service::testing::ServiceFixture {
 protected:
  SmallFileServerTest() : ServiceFixture("small1"), authority(handles_) {
    serve("dir1", authority);
    start_server();
  }
  ~SmallFileServerTest() override { stop_server(); }

  void start_server() {
    server = std::make_unique<SmallFileServer>(
        context_, [this](service::ServiceContext&) -> Result<std::unique_ptr<storage::KvStore>> {
          return std::make_unique<storage::MemoryStore>(loop_, medium);
        });
    slice::Status started = run(server->start());
    ASSERT_TRUE(started) << started.error().message;
    dispatcher = std::make_unique<rpc::Dispatcher>(config_.ensemble_key, metrics_);
    for (rpc::Program* program : server->programs()) dispatcher->add(*program);
    clients.attach(small, dispatcher.get());
    network_.attach(small, dispatcher.get());
  }
  void stop_server() {
    clients.attach(small, nullptr);
    network_.attach(small, nullptr);
    loop_.advance(std::chrono::seconds(2));
    server.reset();
    dispatcher.reset();
  }

  // A regular file of uid 1000, mode 0640, and its handle as a client holds it.
  void make_file(std::uint64_t id, std::uint32_t mode = 0640) {
    authority.files[id] = {.type = nfs3::FileType::kRegular,
                           .mode = mode,
                           .nlink = 1,
                           .uid = 1000,
                           .gid = 1000,
                           .fileid = {id},
                           .mtime = {100, 0},
                           .ctime = {100, 0}};
  }
  static routing::FileHandle handle_of(std::uint64_t id, nfs3::FileType type = nfs3::FileType::kRegular) {
    return {.type = type, .fileid = {id}, .directory_site = {0}, .generation = 1, .cell_key = id};
  }
  // With the hint as a proxy stamps it (docs/formats/file-handle.md).
  routing::HandleBytes mint(routing::FileHandle handle) {
    routing::HandleBytes bytes = handles_.mint(handle);
    std::uint64_t hint = handle.hint.can_patch ? std::uint64_t{1} << 63 : 0;
    if (handle.hint.size) hint |= std::uint64_t{1} << 62 | *handle.hint.size;
    store_be(bytes.data() + 32, hint);
    return bytes;
  }
  routing::HandleBytes hinted(std::uint64_t id, std::optional<std::uint64_t> size = std::nullopt) {
    routing::FileHandle handle = handle_of(id);
    handle.hint = {.can_patch = true, .size = size};
    return mint(handle);
  }

  template <class Args>
  Buffer call(nfs3::Procedure procedure, const Args& args, std::uint32_t uid) {
    rpc::XdrWriter out;
    nfs3::encode_arguments(out, args);
    rpc::Request request{.to = small,
                         .program = nfs3::kProgram,
                         .version = nfs3::kVersion,
                         .procedure = static_cast<std::uint32_t>(procedure),
                         .arguments = out.take(),
                         .timeout = std::chrono::seconds(20),
                         .credential = rpc::AuthSys{}};
    request.credential->uid = request.credential->gid = uid;
    auto response = run(clients.call(std::move(request)));
    EXPECT_TRUE(response) << response.error().message;
    return response ? Buffer(response->results()) : Buffer();
  }
  struct ReadReply {
    Status status = Status::kServerFault;
    std::string data;
    bool eof = false;
    nfs3::PostOpAttributes attributes;
  };
  ReadReply read(const routing::HandleBytes& handle, std::uint64_t offset, std::uint32_t count,
                 std::uint32_t uid = 1000) {
    Buffer results =
        call(nfs3::Procedure::kRead, nfs3::ReadArgs{.file = handle, .offset = offset, .count = count}, uid);
    rpc::XdrReader in(results.view());
    ReadReply reply;
    nfs3::ReadOk ok;
    EXPECT_TRUE(nfs3::decode_result(in, reply.status, ok));
    EXPECT_EQ(ok.count, ok.data.size());
    reply.data = as_text(ok.data);
    reply.eof = ok.eof;
    reply.attributes = ok.attributes;
    return reply;
  }
  struct WriteReply {
    Status status = Status::kServerFault;
    nfs3::WriteOk ok;
  };
  WriteReply write(const routing::HandleBytes& handle, std::uint64_t offset, std::string_view data,
                   nfs3::Stable stable = nfs3::Stable::kUnstable, std::uint32_t uid = 1000,
                   std::optional<std::uint32_t> count = std::nullopt) {
    Buffer results = call(nfs3::Procedure::kWrite,
                          nfs3::WriteArgs{.file = handle,
                                          .offset = offset,
                                          .count = count.value_or(static_cast<std::uint32_t>(data.size())),
                                          .stable = stable,
                                          .data = as_bytes(data)},
                          uid);
    rpc::XdrReader in(results.view());
    WriteReply reply;
    EXPECT_TRUE(nfs3::decode_result(in, reply.status, reply.ok));
    EXPECT_FALSE(reply.ok.wcc.before);  // never taken atomically here
    return reply;
  }
  std::pair<Status, nfs3::CommitOk> commit(const routing::HandleBytes& handle) {
    Buffer results = call(nfs3::Procedure::kCommit, nfs3::CommitArgs{.file = handle}, 1000);
    rpc::XdrReader in(results.view());
    std::pair<Status, nfs3::CommitOk> reply;
    EXPECT_TRUE(nfs3::decode_result(in, reply.first, reply.second));
    return reply;
  }
  wire::ObjectName object(std::uint64_t id) { return {handles_.volume(), {id}, wire::ObjectKind::kFile}; }
  template <class R, class Args>
  R manage(wire::ObjectProcedure procedure, const Args& args) {
    return run(service::internal_call<R>(network_, small, wire::kObjectProgram, procedure, args)).value();
  }
  Status truncate(std::uint64_t id, std::uint64_t size, std::uint32_t epoch) {
    authority.files[id].size = size;
    authority.files[id].rdev_major = epoch;
    return manage<wire::ObjectStatusResult>(wire::ObjectProcedure::kTruncate,
                                            wire::ObjectTruncateArgs{object(id), size, {epoch}})
        .status;
  }

  const rpc::Endpoint small = endpoint("small1");
  rpc::InProcessNetwork clients{loop_, std::nullopt, rpc::Endpoint{0x0a4d0102, 700}};
  FakeAuthority authority;
  storage::MemoryMedium medium;
  std::unique_ptr<SmallFileServer> server;
  std::unique_ptr<rpc::Dispatcher> dispatcher;
};

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
  authority.files[1].size = 20000;  // a truncate made it larger
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, "abc").status, Status::kOk);
  auto hole = read(handle, 2, 10);
  EXPECT_EQ(hole.data, "c" + std::string(9, '\0'));
  EXPECT_FALSE(hole.eof);
  auto last = read(handle, 19990, 100);
  EXPECT_EQ(last.data, std::string(10, '\0'));
  EXPECT_TRUE(last.eof);
  // Bytes above the threshold: the file goes on elsewhere.
  authority.files[1].size = 10 << 20;
  auto own = read(handle, kThreshold - 6, 100);
  EXPECT_EQ(own.data.size(), 6u);
  EXPECT_FALSE(own.eof);
}

TEST_F(SmallFileServerTest, TheHintsSizeSavesAskingTheAuthority) {
  make_file(1);
  ASSERT_EQ(write(hinted(1), 0, "abc").status, Status::kOk);
  int fetches = authority.fetches;
  auto reply = read(hinted(1, 6), 0, 100);
  EXPECT_EQ(reply.data, std::string("abc\0\0\0", 6));
  EXPECT_TRUE(reply.eof);
  EXPECT_EQ(authority.fetches, fetches);
  EXPECT_EQ(read(hinted(1, 0), 0, 100).data, "abc");  // never less than what is here
  // A hint changes its own reply only.
  EXPECT_EQ(read(mint(handle_of(1)), 0, 100).data, "abc");
}

TEST_F(SmallFileServerTest, AttributesGoToThoseThatCanPatchThemWithTheEpoch) {
  make_file(1);
  ASSERT_EQ(truncate(1, 0, 9), Status::kOk);
  auto written = write(hinted(1), 10, "xyz");
  ASSERT_TRUE(written.ok.wcc.after);
  EXPECT_EQ(written.ok.wcc.after->size, 13u);
  EXPECT_EQ(written.ok.wcc.after->rdev_major, 9u);
  EXPECT_EQ(written.ok.wcc.after->uid, 1000u);
  nfs3::Time first = written.ok.wcc.after->mtime;
  EXPECT_GT(first, (nfs3::Time{100, 0}));
  auto got = read(hinted(1), 0, 100);
  ASSERT_TRUE(got.attributes);
  EXPECT_EQ(got.attributes->mtime, first);  // one value everywhere
  EXPECT_EQ(got.attributes->size, 13u);
  EXPECT_GT(write(hinted(1), 0, "a").ok.wcc.after->mtime, first);
  // A client that sets the time back after writing is believed.
  loop_.advance(milliseconds(1500));
  authority.files[1].mtime = {50, 7};
  loop_.advance(milliseconds(2100));
  EXPECT_EQ(read(hinted(1), 0, 5).attributes->mtime, (nfs3::Time{50, 7}));
}

TEST_F(SmallFileServerTest, StableWritesThatMoveTheSizeTellTheAuthorityFirst) {
  make_file(1);
  auto handle = mint(handle_of(1));
  auto written = write(handle, 0, "0123456789", nfs3::Stable::kDataSync);
  EXPECT_EQ(written.ok.committed, nfs3::Stable::kFileSync);
  EXPECT_EQ(authority.files[1].size, 10u);  // already
  int merges = authority.merges;
  ASSERT_EQ(write(handle, 5, "x", nfs3::Stable::kFileSync).status, Status::kOk);
  EXPECT_EQ(authority.merges, merges);  // the size stands
  loop_.advance(milliseconds(1500));
  EXPECT_EQ(authority.merges, merges + 1);  // the mtime follows within a second or so
}

TEST_F(SmallFileServerTest, UnstableWritesAreToldWithinASecondAndByCommitAtOnce) {
  make_file(1);
  make_file(2);
  ASSERT_EQ(write(mint(handle_of(1)), 0, "lazy").status, Status::kOk);
  ASSERT_EQ(write(mint(handle_of(2)), 0, "committed").status, Status::kOk);
  EXPECT_EQ(authority.files[2].size, 0u);
  auto [status, ok] = commit(mint(handle_of(2)));
  EXPECT_EQ(status, Status::kOk);
  EXPECT_EQ(ok.verifier, verifier_.largest());
  EXPECT_EQ(authority.files[2].size, 9u);
  EXPECT_GT(authority.files[2].mtime, (nfs3::Time{100, 0}));
  EXPECT_EQ(authority.files[1].size, 0u);
  loop_.advance(milliseconds(1500));
  EXPECT_EQ(authority.files[1].size, 4u);
}

TEST_F(SmallFileServerTest, RequestsAcrossTheThresholdAreAnsweredShort) {
  make_file(1);
  auto handle = mint(handle_of(1));
  auto written = write(handle, kThreshold - 4, "abcdefgh");
  EXPECT_EQ(written.status, Status::kOk);
  EXPECT_EQ(written.ok.count, 4u);
  authority.files[1].size = kThreshold + 4;
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
  rpc::XdrReader in({});
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
  authority.files[1].mode = 0004;
  EXPECT_EQ(read(handle, 0, 10).data, "secret");
  loop_.advance(milliseconds(2100));
  EXPECT_EQ(read(handle, 0, 10, 2000).data, "secret");
  authority.files[1].mode = 0;
  loop_.advance(milliseconds(2100));
  EXPECT_EQ(read(handle, 0, 10, 2000).status, Status::kAcces);
}

TEST_F(SmallFileServerTest, ARemovedFileIsStale) {
  make_file(1);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, "x").status, Status::kOk);
  authority.files.erase(1);
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
  EXPECT_EQ(truncate(1, 0, 5), Status::kOk);
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
  authority.striped.insert(1);  // a storage node took its first bytes; what is cached here says otherwise
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
  EXPECT_EQ(authority.files[1].size, 8u);
  stop_server();
  disk_.crash(storage::MemoryDisk::Crash::kDropUnsynced);
  start_server();
  EXPECT_EQ(read(mint(handle_of(1)), 0, 100).data, "unstable");
}

}  // namespace
}  // namespace slice::smallfile
