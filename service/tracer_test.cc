#include "service/tracer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "rpc/in_process.h"
#include "service/internal_call.h"
#include "service/testing/service_fixture.h"
#include "service/traced_program.h"
#include "wire/authority.h"
#include "wire/mount3.h"

namespace slice::service {
namespace {

using namespace std::chrono_literals;

wire::TraceRecord nfs_record(std::uint32_t client, std::uint32_t procedure, Duration took, FileId file = {}) {
  return {.took = took,
          .client = {client, 800},
          .program = nfs3::kProgram,
          .procedure = procedure,
          .file = file,
          .received = 10,
          .sent = 20,
          .steps = {}};
}

class TracerTest : public ::testing::Test {
 protected:
  std::vector<wire::TraceRecord> ask(const wire::TraceArgs& args) {
    return tracer_.trace(args, now_).records;
  }

  MonoTime now_ = MonoTime(100s);
  Metrics metrics_;
  Tracer tracer_{"store1", "/data/store1", metrics_};
};

TEST_F(TracerTest, IsOffUntilSomebodyWatchesAndWhenTheLeaseIsOver) {
  EXPECT_FALSE(tracer_.on());
  EXPECT_EQ(tracer_.trace({.watch = 1, .lease_ms = 3000, .filter = {}}, now_).data, "/data/store1");
  EXPECT_TRUE(tracer_.on());
  tracer_.finished(nfs_record(1, 7, 1ms), now_ + 2s);
  EXPECT_TRUE(tracer_.on());
  tracer_.finished(nfs_record(1, 7, 1ms), now_ + 3s);  // the watcher is gone
  EXPECT_FALSE(tracer_.on());
  now_ += 3s;
  EXPECT_TRUE(ask({.watch = 1, .lease_ms = 3000, .filter = {}}).empty());  // a new watch
}

TEST_F(TracerTest, AWatchEndsWithALeaseOfNothing) {
  ask({.watch = 1, .lease_ms = 3000, .filter = {}});
  tracer_.finished(nfs_record(1, 7, 1ms), now_);
  EXPECT_EQ(ask({.watch = 1, .lease_ms = 0, .filter = {}}).size(), 1u);
  EXPECT_FALSE(tracer_.on());
}

TEST_F(TracerTest, WhatWasReceivedIsDroppedAndWhatGotLostComesAgain) {
  ask({.watch = 1, .lease_ms = 3000, .filter = {}});
  for (int i = 0; i < 3; ++i) tracer_.finished(nfs_record(1, 7, 1ms), now_);
  auto records = ask({.watch = 1, .after = 0, .lease_ms = 3000, .filter = {}});
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(ask({.watch = 1, .after = 0, .lease_ms = 3000, .filter = {}}).size(), 3u);
  EXPECT_EQ(ask({.watch = 1, .after = records[1].number, .lease_ms = 3000, .filter = {}}).size(), 1u);
}

TEST_F(TracerTest, FiltersByClientProcedureFileAndTime) {
  const wire::TraceFilter filter{
      .client = 1, .operation = wire::TraceOperation{nfs3::kProgram, 7}, .file = FileId{9}, .slower = 10ms};
  EXPECT_TRUE(wanted(filter, nfs_record(1, 7, 10ms, FileId{9})));
  EXPECT_FALSE(wanted(filter, nfs_record(2, 7, 10ms, FileId{9})));
  EXPECT_FALSE(wanted(filter, nfs_record(1, 6, 10ms, FileId{9})));
  EXPECT_FALSE(wanted(filter, nfs_record(1, 7, 10ms, FileId{8})));
  EXPECT_FALSE(wanted(filter, nfs_record(1, 7, 9ms, FileId{9})));
  // An internal call may be a part of what is wanted, if it is slow enough.
  wire::TraceRecord internal = nfs_record(5, 2, 10ms);
  internal.program = wire::kAuthorityProgram;
  EXPECT_TRUE(wanted(filter, internal));
  internal.took = 9ms;
  EXPECT_FALSE(wanted(filter, internal));
  // So may a LOOKUP that a proxy makes for itself.
  wire::TraceRecord own = nfs_record(5, 3, 10ms);
  own.internal = true;
  EXPECT_TRUE(wanted(filter, own));
}

TEST_F(TracerTest, FiltersByOperationOfMountToo) {
  const wire::TraceFilter filter{.operation = wire::TraceOperation{mount3::kProgram, 1}};
  wire::TraceRecord mount = nfs_record(1, 1, 1ms);
  EXPECT_FALSE(wanted(filter, mount));  // GETATTR, which has that number, too
  mount.program = mount3::kProgram;
  EXPECT_TRUE(wanted(filter, mount));
  mount.procedure = 3;
  EXPECT_FALSE(wanted(filter, mount));
}

TEST_F(TracerTest, TopCountsNoMountsAndNothingThatMembersAskForThemselves) {
  tracer_.top({.lease_ms = 3000}, now_);
  wire::TraceRecord mount = nfs_record(1, 1, 1ms), own = nfs_record(2, 3, 1ms);
  mount.program = mount3::kProgram;
  own.internal = true;
  tracer_.finished(mount, now_);
  tracer_.finished(own, now_);
  EXPECT_TRUE(tracer_.top({.lease_ms = 3000}, now_ + 1s).clients.empty());
}

TEST_F(TracerTest, LogsASlowMountWithItsPath) {
  ::testing::internal::CaptureStderr();
  tracer_.log_slower(100ms);
  wire::TraceRecord slow = nfs_record(0x0a4d0102, 1, 212ms);
  slow.program = mount3::kProgram;
  slow.path = "/a\n";
  slow.status = 13;
  tracer_.finished(slow, now_);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::HasSubstr("slow MNT took_ms=212 client=10.77.1.2:800 path='/a\\x0a' "
                                   "status=MNT3ERR_ACCES name=store1: itself 212 ms\n"));
}

TEST_F(TracerTest, TheRingIsBoundedAndSaysWhatIsLost) {
  ask({.watch = 1, .lease_ms = 3000, .filter = {}});
  for (std::size_t i = 0; i < Tracer::kRing + 5; ++i) tracer_.finished(nfs_record(1, 7, 1ms), now_);
  auto result = tracer_.trace({.watch = 1, .lease_ms = 3000, .filter = {}}, now_);
  EXPECT_EQ(result.records.size(), wire::kMaxTraceRecords);
  EXPECT_EQ(result.records.front().number, 6u);
  EXPECT_EQ(result.lost, 5u);
  EXPECT_EQ(metrics_
                .counter("trace_records_lost_total",
                         "operations that somebody watched and that found no room in the ring")
                .value(),
            5u);
}

TEST_F(TracerTest, InternalCallsCannotPushOutThoseOfClients) {
  ask({.watch = 1, .lease_ms = 3000, .filter = {}});
  tracer_.finished(nfs_record(1, 7, 1ms), now_);
  wire::TraceRecord internal = nfs_record(5, 2, 10ms);
  internal.program = wire::kAuthorityProgram;
  for (std::size_t i = 0; i < Tracer::kRing; ++i) tracer_.finished(internal, now_);
  EXPECT_EQ(ask({.watch = 1, .lease_ms = 3000, .filter = {}}).front().program, nfs3::kProgram);
}

TEST_F(TracerTest, SoManyWatchAtOnceAndNoMore) {
  for (std::uint64_t i = 1; i <= Tracer::kMostWatches; ++i) {
    EXPECT_EQ(tracer_.trace({.watch = i, .lease_ms = 3000, .filter = {}}, now_).refused, "");
  }
  EXPECT_NE(tracer_.trace({.watch = 99, .lease_ms = 3000, .filter = {}}, now_).refused, "");
  EXPECT_EQ(tracer_.trace({.watch = 1, .lease_ms = 3000, .filter = {}}, now_).refused, "");
  now_ += 4s;
  EXPECT_EQ(tracer_.trace({.watch = 99, .lease_ms = 3000, .filter = {}}, now_).refused, "");
}

TEST_F(TracerTest, TopCountsWhileItIsAskedFor) {
  EXPECT_TRUE(tracer_.top({.lease_ms = 3000}, now_).clients.empty());
  for (int i = 0; i < 3; ++i) tracer_.finished(nfs_record(1, 7, 2ms, FileId{9}), now_);
  tracer_.finished(nfs_record(2, 6, 50ms, FileId{8}), now_);
  auto top = tracer_.top({.lease_ms = 3000}, now_ + 1s);
  EXPECT_EQ(top.counted, 1s);
  ASSERT_EQ(top.clients.size(), 2u);
  EXPECT_EQ(top.clients[0].key.client, 1u);
  EXPECT_EQ(top.clients[0].calls, 3u);
  EXPECT_EQ(top.clients[0].received, 30u);
  EXPECT_EQ(top.clients[0].took, 6ms);
  EXPECT_EQ(top.clients[1].slowest, 50ms);
  EXPECT_EQ(top.files[0].key.number, 9u);
  EXPECT_EQ(top.procedures[0].key.number, 7u);
  tracer_.finished(nfs_record(1, 7, 2ms, FileId{9}), now_ + 10s);  // nobody asks any more
  EXPECT_FALSE(tracer_.on());
  EXPECT_TRUE(tracer_.top({.lease_ms = 3000}, now_ + 10s).clients.empty());
}

TEST_F(TracerTest, LogsWhatIsSlowAndWhereItsTimeWent) {
  ::testing::internal::CaptureStderr();
  tracer_.log_slower(100ms);
  EXPECT_TRUE(tracer_.on());
  wire::TraceRecord slow = nfs_record(0x0a4d0102, 7, 212ms, FileId{0x77});
  slow.waited = 1ms;
  slow.steps.push_back({.kind = TraceStep::Kind::kSync, .began = 1ms, .took = 200ms, .what = "objects/1"});
  slow.steps.push_back({.kind = TraceStep::Kind::kRead, .began = 201ms, .took = 1ms, .what = "objects/2"});
  slow.steps.push_back({.kind = TraceStep::Kind::kCall,
                        .began = 202ms,
                        .took = 6ms,
                        .what = {},
                        .address = 0x0a4d0302,
                        .port = 2049,
                        .program = wire::kAuthorityProgram,
                        .procedure = 2});
  tracer_.finished(slow, now_);
  tracer_.finished(nfs_record(1, 7, 99ms), now_);
  wire::TraceRecord internal = slow;
  internal.program = wire::kAuthorityProgram;
  tracer_.finished(internal, now_);
  tracer_.log_slower(0ms);
  EXPECT_FALSE(tracer_.on());
  tracer_.finished(slow, now_);
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      ::testing::AllOf(::testing::HasSubstr("slow WRITE took_ms=212 client=10.77.1.2:800 file=0x77 "
                                            "offset=0 count=0 status=NFS3_OK name=store1: sync of "
                                            "objects/1 200 ms, authority MERGE at 10.77.3.2:2049 6 ms, "
                                            "itself 4 ms\n"),
                       ::testing::Not(::testing::HasSubstr("took_ms=99"))));
  EXPECT_EQ(metrics_
                .counter("slow_operations_total",
                         "operations of clients that took slow_operation_ms or longer here")
                .value(),
            1u);
}

TEST(TopCountsTest, WhoCausesMuchIsAmongThoseKeptWhateverElseThereIs) {
  TopCounts counts;
  const wire::TraceRecord record = nfs_record(1, 7, 1ms);
  for (std::uint64_t i = 0; i < 50'000; ++i) {
    counts.add({.number = 1'000'000 + i}, record);  // each comes once
    if (i % 50 == 0) counts.add({.number = 42}, record);
  }
  auto entries = counts.entries();
  EXPECT_EQ(entries.size(), TopCounts::kMostKeys);
  auto found =
      std::find_if(entries.begin(), entries.end(), [](const auto& each) { return each.key.number == 42; });
  ASSERT_NE(found, entries.end());
  EXPECT_GE(found->calls, 1000u);                  // never too few
  EXPECT_LE(found->calls - found->others, 1000u);  // and by how much too many, it says
}

// A program that waits, and asks another.
class Waiter : public rpc::Program {
 public:
  Waiter(Loop& loop, rpc::Channel* channel, rpc::Endpoint other, std::uint32_t program)
      : loop_(loop), channel_(channel), other_(other), program_(program) {}
  std::uint32_t number() const override { return program_; }
  std::uint32_t version() const override { return program_ == nfs3::kProgram ? 3 : 1; }
  Task<rpc::Outcome> handle(const rpc::Call&, rpc::XdrWriter& results) override {
    {
      TraceScope step(co_await current_trace(), TraceStep::Kind::kSync, "objects/1");
      co_await loop_.sleep(30ms);
    }
    if (channel_ != nullptr) {
      (void)co_await internal_call<NoResults>(*channel_, other_, wire::kAuthorityProgram,
                                              wire::AuthorityProcedure::kMerge, NoArguments{});
    }
    results.u32(0);
    co_return rpc::Outcome::kReply;
  }

 private:
  Loop& loop_;
  rpc::Channel* channel_;
  rpc::Endpoint other_;
  std::uint32_t program_;
};

class TracedProgramTest : public testing::ServiceFixture {
 protected:
  TracedProgramTest() : ServiceFixture("store1") {}

  // A WRITE of a file, from another member for a client.
  rpc::Request request() {
    rpc::XdrWriter out;
    routing::HandleBytes bytes = handles_.mint({.fileid = FileId{77}});
    nfs3::encode_arguments(out, nfs3::WriteArgs{.file = bytes,
                                                .offset = 65536,
                                                .count = 4,
                                                .stable = nfs3::Stable::kFileSync,
                                                .data = as_bytes("abcd")});
    rpc::Request request;
    request.to = endpoint("store1");
    request.program = nfs3::kProgram;
    request.version = 3;
    request.procedure = 7;
    request.arguments = out.take();
    request.on_behalf = {.client = {0x0a4d0102, 800}, .xid = Xid{0x55}};
    return request;
  }

  Tracer tracer_{"store1", "", metrics_}, of_dir1_{"dir1", "", metrics_};
  Waiter authority_{loop_, nullptr, {}, wire::kAuthorityProgram};
  TracedProgram traced_authority_{authority_, of_dir1_, loop_, handles_};
  Waiter nfs_{loop_, &network_, endpoint("dir1"), nfs3::kProgram};
  TracedProgram traced_{nfs_, tracer_, loop_, handles_};
};

TEST_F(TracedProgramTest, SaysWhoAskedWhatAndWhereTheTimeWent) {
  serve("store1", traced_);
  serve("dir1", traced_authority_);
  tracer_.trace({.watch = 1, .lease_ms = 3000, .filter = {}}, loop_.now());
  of_dir1_.trace({.watch = 1, .lease_ms = 3000, .filter = {}}, loop_.now());
  ASSERT_TRUE(run(network_.call(request())));
  auto records = tracer_.trace({.watch = 1, .lease_ms = 3000, .filter = {}}, loop_.now()).records;
  ASSERT_EQ(records.size(), 1u);
  const wire::TraceRecord& record = records[0];
  EXPECT_EQ(record.client, (rpc::Endpoint{0x0a4d0102, 800}));
  EXPECT_EQ(record.xid, Xid{0x55});
  EXPECT_EQ(record.sender, self_.index);
  EXPECT_EQ(record.file, FileId{77});
  EXPECT_EQ(record.offset, 65536u);
  EXPECT_EQ(record.count, 4u);
  EXPECT_EQ(record.stable, 2u);
  EXPECT_EQ(record.took, 60ms);
  ASSERT_EQ(record.steps.size(), 2u);
  EXPECT_EQ(record.steps[0].kind, TraceStep::Kind::kSync);
  EXPECT_EQ(record.steps[0].took, 30ms);
  EXPECT_EQ(record.steps[1].kind, TraceStep::Kind::kCall);
  EXPECT_EQ((rpc::Endpoint{record.steps[1].address, record.steps[1].port}), endpoint("dir1"));
  // The called one knows the call by the same xid and sender.
  auto there = of_dir1_.trace({.watch = 1, .lease_ms = 3000, .filter = {}}, loop_.now()).records;
  ASSERT_EQ(there.size(), 1u);
  EXPECT_EQ(there[0].carried, record.steps[1].xid);
  EXPECT_EQ(there[0].sender, self_.index);
  EXPECT_EQ(there[0].program, wire::kAuthorityProgram);
}

TEST_F(TracedProgramTest, SaysNothingWhileNobodyWatches) {
  serve("store1", traced_);
  serve("dir1", traced_authority_);
  ASSERT_TRUE(run(network_.call(request())));
  tracer_.trace({.watch = 1, .lease_ms = 3000, .filter = {}}, loop_.now());
  EXPECT_TRUE(tracer_.trace({.watch = 1, .lease_ms = 3000, .filter = {}}, loop_.now()).records.empty());
}

}  // namespace
}  // namespace slice::service
