// The server as a whole and the object program, as clients and managers see them: through the whole codec,
// with a fake authority. READ, WRITE and COMMIT have their tests beside them, in ops/.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "smallfile/testing/server_fixture.h"

namespace slice::smallfile {
namespace {

using std::chrono::milliseconds;

TEST_F(SmallFileServerTest, WhatIsNotItsOwnIsMisdirected) {
  make_file(1);
  auto handle = mint(handle_of(1));
  for (std::uint64_t offset : {kThreshold, std::uint64_t{1} << 40, (std::uint64_t{1} << 63) - 1,
                               std::uint64_t{1} << 63, ~std::uint64_t{0} - 3, ~std::uint64_t{0}}) {
    EXPECT_NE(read(handle, offset, 10).status, NfsStatus::kOk) << offset;
    nfs3::WriteArgs args{.file = handle, .offset = offset, .count = 1, .data = as_bytes("x")};
    EXPECT_FALSE(ask(nfs3::Procedure::kWrite, args, 1000)) << "its owner may carry it out later";
  }
  loop_.advance(std::chrono::minutes(1));  // so long the server does it again
  EXPECT_GT(metrics_.counter("nfs_misdirected_total").value(), 0u);
  silence("dir1");  // so that there is nobody to relay it to
  Buffer results = call(nfs3::Procedure::kGetattr, nfs3::HandleView(handle), 1000);
  EXPECT_EQ(load_be<std::uint32_t>(results.data()), static_cast<std::uint32_t>(NfsStatus::kJukebox));
}

TEST_F(SmallFileServerTest, WhatIsGoneIsRemovedAndCutAgain) {
  make_file(1);
  ASSERT_EQ(write(mint(handle_of(1)), 0, "x").status, NfsStatus::kOk);
  authority.remove({1});
  EXPECT_EQ(remove_here(1), NfsStatus::kOk);
  EXPECT_EQ(remove_here(1), NfsStatus::kOk);  // idempotent
  EXPECT_EQ(remove_here(99), NfsStatus::kOk);
  EXPECT_EQ(truncate_here(1, 0, 5), NfsStatus::kOk);
}

TEST_F(SmallFileServerTest, ALargerVerifierSeenInACommitIsAnsweredFromThenOn) {
  make_file(1);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, "abc").status, NfsStatus::kOk);
  auto committed = manage<wire::ObjectCommitResult>(wire::ObjectProcedure::kCommit,
                                                    wire::ObjectCommitArgs{object(1), Verifier{77}});
  EXPECT_EQ(committed.status, NfsStatus::kOk);
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
      NfsStatus::kOk);
}

TEST_F(SmallFileServerTest, AFullDiskIsNoSpcAndReadsGoOn) {
  make_file(1);
  auto handle = mint(handle_of(1));
  ASSERT_EQ(write(handle, 0, "here").status, NfsStatus::kOk);
  disk_.set_capacity(disk_.used_bytes() + self_.reserve_bytes / 2);
  loop_.advance(milliseconds(200));
  EXPECT_EQ(write(handle, 0, "more").status, NfsStatus::kNoSpc);
  EXPECT_EQ(server->state(), "read-only: no space");
  EXPECT_EQ(read(handle, 0, 4).data, "here");
  EXPECT_EQ(truncate(1, 0, 1), NfsStatus::kOk);
  disk_.set_capacity(std::uint64_t{1} << 40);
  EXPECT_EQ(write(handle, 0, "again").status, NfsStatus::kOk);
  EXPECT_EQ(server->state(), "serving");
}

TEST_F(SmallFileServerTest, ACleanStopTellsAndSavesEverything) {
  make_file(1);
  ASSERT_EQ(write(mint(handle_of(1)), 0, "unstable").status, NfsStatus::kOk);
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
