// A storage node's part in mirrored files, with a fake coordinator and a fake node that has the other copy.
#include "storagenode/mirrors.h"

#include <functional>

#include "bpf/shared/file_handle.h"
#include "routing/copies.h"
#include "storagenode/testing/server_fixture.h"
#include "wire/coordinator.h"

namespace slice::storagenode {
namespace {

// A coordinator whose files miss nothing, but where a test says so.
class FakeCoordinator : public rpc::Program {
 public:
  std::uint32_t number() const override { return wire::kCoordinatorProgram; }
  std::uint32_t version() const override { return wire::kInternalVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override {
    switch (static_cast<wire::CoordinatorProcedure>(call.procedure)) {
      case wire::CoordinatorProcedure::kSession:
        if (before_session) before_session();
        encode(results,
               wire::SessionResult{.session = session, .milliseconds = 3000, .version = layout.version});
        co_return rpc::Outcome::kReply;
      case wire::CoordinatorProcedure::kEndSession: {
        wire::EndSessionArgs args;
        EXPECT_TRUE(decode(call.arguments, args));
        EXPECT_EQ(args.session, session);
        ended.push_back(args.durable);
        encode(results, wire::CoordinatorResult{});
        co_return rpc::Outcome::kReply;
      }
      case wire::CoordinatorProcedure::kLayout:
        ++asked;
        encode(results, wire::LayoutResult{.status = status, .layout = layout, .owner = owner});
        co_return rpc::Outcome::kReply;
      case wire::CoordinatorProcedure::kMissed:
        ++missed;
        encode(results, wire::CoordinatorResult{.status = notes});
        co_return rpc::Outcome::kReply;
      default:
        co_return rpc::Outcome::kNoProcedure;
    }
  }
  std::uint64_t session = 1;
  std::function<void()> before_session;  // while it is asked for one
  unsigned missed = 0, asked = 0;
  std::vector<bool> ended;            // sessions: whether what was written is durable
  std::uint32_t owner = 0;            // of the file's site, as it knows
  NfsStatus status = NfsStatus::kOk;  // of layouts
  NfsStatus notes = NfsStatus::kOk;   // of MISSED
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
    if (call.procedure == static_cast<std::uint32_t>(wire::ObjectProcedure::kLeaving)) {
      ++left;
      encode(results, wire::ObjectStatusResult{});
      co_return rpc::Outcome::kReply;
    }
    if (call.procedure != static_cast<std::uint32_t>(wire::ObjectProcedure::kForward)) {
      co_return rpc::Outcome::kNoProcedure;
    }
    ++forwards;
    wire::ForwardArgs args;
    EXPECT_TRUE(decode(call.arguments, args));
    if (args.hole > 0 && !knows_holes) co_return rpc::Outcome::kGarbage;
    holes += args.hole;
    epochs.push_back(args.epoch);
    if (slow) co_await *slow;
    encode(results, wire::ForwardResult{.status = args.epoch < epoch ? NfsStatus::kNotSync : NfsStatus::kOk});
    co_return rpc::Outcome::kReply;
  }
  unsigned forwards = 0, left = 0;
  bool knows_holes = true;
  std::uint64_t holes = 0;            // bytes
  Epoch epoch;                        // of its object
  std::vector<Epoch> epochs;          // under which it was asked to write
  std::optional<OneShot<bool>> slow;  // that it waits for
};

// As a proxy sends it.
rpc::Request forwarded_write(rpc::Endpoint to, const routing::HandleBytes& handle, std::uint64_t offset,
                             const rpc::OnBehalf& on_behalf) {
  rpc::XdrWriter out;
  nfs3::encode_arguments(out, nfs3::WriteArgs{handle, offset, 4, Stable::kUnstable, as_bytes("late")});
  rpc::AuthSys who;
  who.uid = who.gid = 1000;
  return {.to = to,
          .program = nfs3::kProgram,
          .version = nfs3::kVersion,
          .procedure = static_cast<std::uint32_t>(Procedure::kWrite),
          .arguments = out.take(),
          .timeout = std::chrono::seconds(60),
          .credential = who,
          .on_behalf = on_behalf};
}

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
  rpc::Request own_call(Procedure procedure, Buffer arguments, bool own) {
    return {.to = endpoint("store1"),
            .program = nfs3::kProgram,
            .version = nfs3::kVersion,
            .procedure = static_cast<std::uint32_t>(procedure),
            .arguments = std::move(arguments),
            .timeout = std::chrono::seconds(20),
            .on_behalf = {.client = {0x0a4d0102, 900}, .xid = Xid{++xid}, .own = own}};
  }
  // A WRITE without data: as the ensemble's own client sends it, or another.
  WriteReply without_data(std::uint32_t count, bool own) {
    rpc::XdrWriter out;
    auto bytes = handles_.mint(handle);
    nfs3::encode_arguments(
        out, nfs3::WriteArgs{bytes, stripe << handle.stripe_shift, count, Stable::kUnstable, {}});
    auto response = run(network_.call(own_call(Procedure::kWrite, out.take(), own)));
    EXPECT_TRUE(response) << response.error().message;
    WriteReply reply;
    rpc::XdrReader in(response->results());
    EXPECT_TRUE(nfs3::decode_result(in, reply.status, reply.ok) && in.complete());
    return reply;
  }
  std::uint32_t xid = 100;
  // One that a proxy sends; `told`: when it may come again, where it was sent too early.
  NfsStatus sent(rpc::LayoutStamp stamp, std::uint8_t relays = 0) {
    auto response = run(network_.call(
        forwarded_write(endpoint("store1"), handles_.mint(handle), stripe << handle.stripe_shift,
                        {.client = {0x0a4d0102, 900}, .xid = Xid{1}, .relays = relays, .layout = stamp})));
    EXPECT_TRUE(response);
    if (!response) return NfsStatus::kServerFault;
    told = wire::decode_sent_too_early(response->results());
    return static_cast<NfsStatus>(load_be<std::uint32_t>(response->results().data()));
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
  void recall() {
    spawn(recalled({handle.fileid, coordinator.layout.changed, config_.find("coord1")->index,
                    std::vector<std::uint32_t>()}));
  }
  Task<void> recalled(wire::RecallArgs args) {
    auto result = co_await service::internal_call<wire::ObjectStatusResult>(
        network_, endpoint("store1"), wire::kObjectProgram, wire::ObjectProcedure::kRecall, args);
    EXPECT_TRUE(result);
  }

  FakeCoordinator coordinator;
  FakeCopy copy;
  std::uint64_t stripe = 0;
  std::optional<rpc::LayoutStamp> told;
};

TEST_F(MirroredFileTest, AWriteWithoutDataMakesAHoleInBothCopies) {
  const Buffer data = bytes_of(32 << 10, 1);
  const std::uint64_t begin = stripe << handle.stripe_shift;
  ASSERT_EQ(write(begin, data.view()).status, NfsStatus::kOk);
  const WriteReply made = without_data(24 << 10, true);
  EXPECT_EQ(made.status, NfsStatus::kOk);
  EXPECT_EQ(made.ok.count, 24u << 10);
  EXPECT_EQ(copy.holes, 24u << 10);
  EXPECT_EQ(read(begin, 24 << 10).data, std::string(24 << 10, '\0'));
  EXPECT_EQ(read(begin + (24 << 10), 8 << 10).data, text(data).substr(24 << 10));
  copy.knows_holes = false;
  EXPECT_EQ(without_data(32 << 10, true).status, NfsStatus::kOk);
  EXPECT_EQ(copy.forwards, 4u) << "what it refused it gets as zeros";
  EXPECT_EQ(coordinator.missed, 0u);
}

TEST_F(MirroredFileTest, AReadOfNoBytesTellsWhatIsThere) {
  const std::uint64_t begin = stripe << handle.stripe_shift, unit = std::uint64_t{1} << handle.stripe_shift;
  const auto extent = [&](std::uint64_t within, bool own) {
    rpc::XdrWriter out;
    nfs3::encode_arguments(out, nfs3::ReadArgs{handles_.mint(handle), begin + within, 0});
    const auto response = run(network_.call(own_call(Procedure::kRead, out.take(), own)));
    EXPECT_TRUE(response);
    rpc::XdrReader in(response->results());
    EXPECT_EQ(in.u32(), 0u);
    if (in.boolean()) in.skip(nfs3::kAttributesSize);
    const std::uint32_t length = in.u32();
    const bool hole = in.boolean();
    EXPECT_EQ(in.u32(), 0u);
    EXPECT_TRUE(in.complete());
    return std::pair<std::uint32_t, bool>(length, hole);
  };
  using Told = std::pair<std::uint32_t, bool>;
  EXPECT_EQ(extent(0, true), Told(unit, true)) << "no object";
  const Buffer data = bytes_of(10'000, 1);
  ASSERT_EQ(write(begin + 8192, data.view()).status, NfsStatus::kOk);
  EXPECT_EQ(extent(100, true), Told(8092, true));
  EXPECT_EQ(extent(8192 + 100, true), Told(12288 - 100, false)) << "in whole blocks";
  EXPECT_EQ(extent(8192 + 12288, true), Told(unit - 8192 - 12288, true));
  EXPECT_EQ(extent(8192, false).first, 0u) << "others read no bytes";
}

TEST_F(MirroredFileTest, NobodyElseMakesOne) {
  ASSERT_EQ(write_stripe("abcd").status, NfsStatus::kOk);
  EXPECT_EQ(without_data(4, false).status, NfsStatus::kInval);
  handle.flags = 0;
  EXPECT_EQ(without_data(4, true).status, NfsStatus::kInval) << "of a file without a layout";
}

TEST_F(MirroredFileTest, AWriteGoesToBothCopies) {
  EXPECT_EQ(write_stripe("abcd").status, NfsStatus::kOk);
  EXPECT_EQ(copy.forwards, 1u);
}

// A client that is told to come again would wait for ever.
TEST_F(MirroredFileTest, ALayoutThatTheCoordinatorHasLostIsAnError) {
  coordinator.status = NfsStatus::kIo;
  EXPECT_EQ(write_stripe("abcd").status, NfsStatus::kIo);
  recall();
  coordinator.status = NfsStatus::kNoSpc;
  EXPECT_EQ(write_stripe("abcd").status, NfsStatus::kJukebox);
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
  EXPECT_EQ(metrics_.counter("mirror_writes_sent_too_early_total").value(), 1u);
}

// Told to wait, its client would send a new call, and another node with a copy of this one could carry it out
// behind that.
TEST_F(MirroredFileTest, AWriteThatAProxySendsIsTriedAgainAndNotPutOff) {
  const auto coord1 = static_cast<std::uint16_t>(config_.find("coord1")->index);
  silence("store2");
  coordinator.notes = NfsStatus::kJukebox;
  loop_.after(std::chrono::seconds(8), [&] { coordinator.notes = NfsStatus::kOk; });
  EXPECT_EQ(sent({coord1, 10}), NfsStatus::kOk);
  EXPECT_GT(coordinator.missed, 1u);
}

// It has been on its way all the while, from a proxy or another node, and this one may have started since.
TEST_F(MirroredFileTest, AWriteThatWasSentBeforeThisCopyWasMissingIsNotDone) {
  const auto coord1 = static_cast<std::uint16_t>(config_.find("coord1")->index);
  coordinator.layout.version = coordinator.layout.changed = 21;
  coordinator.layout.orders_since = {{.server = self_.index, .version = 21}};
  EXPECT_EQ(sent({coord1, 20}), NfsStatus::kJukebox);
  EXPECT_EQ(told, (rpc::LayoutStamp{coord1, 21})) << "with that it may come again";
  EXPECT_EQ(sent({coord1, 20}, 1), NfsStatus::kJukebox) << "passed on";
  EXPECT_EQ(sent({static_cast<std::uint16_t>(coord1 + 1), 21}), NfsStatus::kJukebox) << "another's version";
  EXPECT_EQ(copy.forwards, 0u);
  EXPECT_EQ(sent({coord1, 21}), NfsStatus::kOk) << "though the same call was refused before";
  EXPECT_EQ(copy.forwards, 1u);
  EXPECT_EQ(sent({coord1, 20}), NfsStatus::kOk) << "it was done";
  EXPECT_EQ(copy.forwards, 1u);
}

// A recall is under way: the others may act by the layout of before.
TEST_F(MirroredFileTest, AWriteWaitsUntilThisCopyMayOrder) {
  coordinator.layout.version = coordinator.layout.changed = 21;
  coordinator.layout.orders_since = {{.server = self_.index, .version = wire::kNotYet}};
  loop_.after(std::chrono::milliseconds(300), [&] {
    coordinator.layout.version = 22;
    coordinator.layout.orders_since = {{.server = self_.index, .version = 22}};
  });
  EXPECT_EQ(write_stripe("abcd").status, NfsStatus::kJukebox) << "it came before";
  EXPECT_EQ(write_stripe("abcd").status, NfsStatus::kOk);
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

TEST_F(MirroredFileTest, OtherTablesComeWhileASessionIsRenewed) {
  ASSERT_EQ(write_stripe("abcd").status, NfsStatus::kOk);
  coordinator.session = 2;
  coordinator.before_session = [this] {
    tables_.set(routing::RoutingTables::make(config_, tables_.get()->wire()).value());
  };
  loop_.advance(std::chrono::seconds(3));
  EXPECT_EQ(metrics_.counter("mirror_sessions_lost_total").value(), 1u);
  EXPECT_EQ(write_stripe("efgh").status, NfsStatus::kOk);
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
  const double first = seconds_of_a_write();
  EXPECT_GT(first, 1.4);
  EXPECT_LT(first, 1.6) << "it answers no probe either";
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

// Whoever waits for it waits for its session to end by time, or for its host to answer.
TEST_F(MirroredFileTest, ANodeThatIsStoppedTellsEverybodyWhenAllIsDurable) {
  EXPECT_EQ(write_stripe("abcd").status, NfsStatus::kOk);
  const MonoTime before = loop_.now();
  stop_server();
  EXPECT_LT(loop_.now() - before, std::chrono::milliseconds(500));
  EXPECT_EQ(coordinator.ended, (std::vector<bool>{false, true}));
  EXPECT_EQ(copy.left, 1u);
  disk_.crash(storage::MemoryDisk::Crash::kDropUnsynced);
  start_server();
  loop_.advance(std::chrono::milliseconds(1100));
  EXPECT_EQ(read(stripe << handle.stripe_shift, 4).data, "abcd");
}

TEST_F(MirroredFileTest, ANodeThatIsStoppedDoesNotSayThatAllIsDurableWhereItsDiskFails) {
  EXPECT_EQ(write_stripe("abcd").status, NfsStatus::kOk);
  disk_.set_fault([](const storage::MemoryDisk::Access& access) -> std::optional<Error> {
    if (access.operation != storage::MemoryDisk::Operation::kSync) return std::nullopt;
    return Error{Errc::kIo, "injected"};
  });
  stop_server();
  EXPECT_EQ(coordinator.ended, (std::vector<bool>{false}));
  EXPECT_EQ(copy.left, 1u);
  disk_.set_fault(nullptr);
  start_server();
}

// Told to wait, a client would do so for longer than it takes until it asks another node.
TEST_F(MirroredFileTest, ANodeWhoseSessionsHaveEndedAnswersNothingByLayouts) {
  EXPECT_EQ(write_stripe("abcd").status, NfsStatus::kOk);
  bool ended = false;
  start_void(server->node().mirrors.leave(), [&ended] { ended = true; });
  ASSERT_TRUE(loop_.run_until([&ended] { return ended; }));
  const auto bytes = handles_.mint(handle);
  EXPECT_FALSE(call(Procedure::kRead, nfs3::ReadArgs{bytes, stripe << handle.stripe_shift, 4}));
  loop_.advance(std::chrono::seconds(5));
  EXPECT_EQ(coordinator.ended.size(), 2u) << "and it asks for no other session";
  EXPECT_EQ(copy.forwards, 1u);
}

TEST_F(MirroredFileTest, ANodeThatIsBeingStoppedIsNotAskedUntilItAnswersAgain) {
  const wire::LeavingArgs leaving{config_.find("store2")->index}, itself{self_.index};
  const auto told = [this](const wire::LeavingArgs& args) {
    return run(service::internal_call<wire::ObjectStatusResult>(
                   network_, endpoint("store1"), wire::kObjectProgram, wire::ObjectProcedure::kLeaving, args))
        ->status;
  };
  EXPECT_EQ(told(leaving), NfsStatus::kOk);
  EXPECT_EQ(told(itself), NfsStatus::kInval);
  EXPECT_EQ(told({config_.find("coord1")->index}), NfsStatus::kInval);
  EXPECT_EQ(told({999}), NfsStatus::kInval);
  EXPECT_EQ(write_stripe("abcd").status, NfsStatus::kOk);
  EXPECT_EQ(copy.forwards, 0u);
  EXPECT_EQ(coordinator.missed, 1u);
  loop_.advance(std::chrono::seconds(3));
  EXPECT_EQ(write_stripe("efgh").status, NfsStatus::kOk);
  EXPECT_EQ(copy.forwards, 1u);
}

// It was found out beside.
TEST_F(MirroredFileTest, ANodeThatIsSilentForAWhileIsNotWaitedFor) {
  EXPECT_EQ(write_stripe("abcd").status, NfsStatus::kOk);
  silence("store2");
  loop_.advance(std::chrono::seconds(3));
  const MonoTime before = loop_.now();
  EXPECT_EQ(write_stripe("efgh").status, NfsStatus::kOk);
  EXPECT_LT(loop_.now() - before, std::chrono::milliseconds(100));
  EXPECT_EQ(coordinator.missed, 1u);
}

// Its disk takes long: it answers probes.
TEST_F(MirroredFileTest, ANodeThatIsBusyIsWaitedFor) {
  copy.slow.emplace();
  loop_.after(std::chrono::seconds(4), [slow = *copy.slow] { slow.set(true); });
  const MonoTime before = loop_.now();
  EXPECT_EQ(write_stripe("abcd").status, NfsStatus::kOk);
  EXPECT_GE(loop_.now() - before, std::chrono::seconds(4));
  EXPECT_EQ(coordinator.missed, 0u);
  EXPECT_EQ(copy.forwards, 1u);
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

// ---- openers of raw volumes (docs/raw-volumes.md) ----

class OpenedFileTest : public MirroredFileTest {
 protected:
  // Opened by the next: as the coordinator has it done, to the size that it has.
  Task<void> open(std::uint32_t epoch, bool& done) {
    auto result = co_await service::internal_call<wire::ObjectStatusResult>(
        network_, endpoint("store1"), wire::kObjectProgram, wire::ObjectProcedure::kTruncate,
        wire::ObjectTruncateArgs{name(), 1 << 30, Epoch{epoch}}, std::chrono::seconds(60));
    EXPECT_TRUE(result && result->status == NfsStatus::kOk);
    done = true;
  }
  void open_now(std::uint32_t epoch) {
    bool done = false;
    spawn(open(epoch, done));
    ASSERT_TRUE(loop_.run_until([&] { return done; }));
    handle = routing::opened_at(handle, Epoch{epoch});
    copy.epoch = Epoch{epoch};
  }
  // Ends when it is answered.
  Task<void> write_beside(std::optional<NfsStatus>& status) {
    auto response = co_await network_.call(forwarded_write(endpoint("store1"), handles_.mint(handle),
                                                           stripe << handle.stripe_shift,
                                                           {.client = {0x0a4d0102, 901}, .xid = Xid{1}}));
    EXPECT_TRUE(response);
    if (response) status = static_cast<NfsStatus>(load_be<std::uint32_t>(response->results().data()));
  }
  // Something is written, and a write after it waits at the other copy.
  void write_slowly(std::optional<NfsStatus>& status) {
    ASSERT_EQ(write_stripe("some").status, NfsStatus::kOk);
    copy.slow.emplace();
    spawn(write_beside(status));
    loop_.advance(std::chrono::milliseconds(100));
  }
  std::string stripe_now() { return read(stripe << handle.stripe_shift, 4).data; }
};

TEST_F(OpenedFileTest, AFormerOpenerNeitherWritesNorReads) {
  open_now(3);
  ASSERT_EQ(write_stripe("mine").status, NfsStatus::kOk);
  EXPECT_EQ(stripe_now(), "mine");
  const routing::FileHandle former = handle;
  open_now(4);
  EXPECT_EQ(stripe_now(), "mine") << "what was written stays";
  handle = former;
  EXPECT_EQ(write_stripe("late").status, NfsStatus::kStale);
  EXPECT_EQ(read(stripe << handle.stripe_shift, 4).status, NfsStatus::kStale);
  EXPECT_EQ(copy.forwards, 1u) << "nor does it come to another copy";
  handle = routing::opened_at(handle, Epoch{4});
  EXPECT_EQ(stripe_now(), "mine");
  EXPECT_EQ(write_stripe("next").status, NfsStatus::kOk);
}

// It may not come after what the next opener writes.
TEST_F(OpenedFileTest, TheNextOneWaitsForWritesThatHaveBegun) {
  open_now(3);
  std::optional<NfsStatus> written;
  write_slowly(written);
  ASSERT_EQ(copy.forwards, 2u);
  bool opened = false;
  spawn(open(4, opened));
  loop_.advance(std::chrono::seconds(1));
  EXPECT_FALSE(opened);
  copy.slow->set(true);
  ASSERT_TRUE(loop_.run_until([&] { return opened && written.has_value(); }));
  EXPECT_EQ(*written, NfsStatus::kOk);
}

// It was done at one of them before the device was opened, and refused by the other: they are to have the
// same.
TEST_F(OpenedFileTest, WhatOneCopyHasAllGet) {
  open_now(3);
  std::optional<NfsStatus> written;
  write_slowly(written);
  copy.epoch = Epoch{4};  // there the next one has come first
  bool opened = false;
  spawn(open(4, opened));
  loop_.advance(std::chrono::milliseconds(100));
  copy.slow->set(true);
  copy.slow.reset();
  ASSERT_TRUE(loop_.run_until([&] { return opened && written.has_value(); }));
  EXPECT_EQ(*written, NfsStatus::kOk);
  EXPECT_EQ(copy.epochs.back(), Epoch{4});
  EXPECT_EQ(copy.forwards, 3u);
}

// Nobody would enforce it where a file has no layout.
TEST_F(OpenedFileTest, OnlyFilesWithALayoutAreOpened) {
  open_now(3);
  handle.flags &= static_cast<std::uint8_t>(~SLICE_HANDLE_MIRRORED);
  EXPECT_EQ(write_stripe("some").status, NfsStatus::kInval);
}

// The same with two coordinators, of which one has the file's site.
EnsembleConfig two_coordinators() {
  EnsembleConfig config = sample_config();
  service::testing::add_server(config, "coord2", ServerRole::kCoordinator);
  return config;
}

class CoordinatorsTest : public StorageServerTest {
 protected:
  CoordinatorsTest() : StorageServerTest(two_coordinators()) {
    handle.flags = SLICE_HANDLE_MIRRORED;
    const auto& tables = *tables_.get();
    site = tables.coordinator_site(handle.fileid).value;
    const auto& owner = tables.server_of(wire::Role::kCoordinator, SiteId{site});
    mine = owner.server;
    other = config_.find(owner.name == "coord1" ? "coord2" : "coord1")->index;
    serve(owner.name, has_it);
    serve(config_.servers[other].name, gets_it);
    serve("store2", copy);
    has_it.owner = mine;
    gets_it.owner = other;
    gets_it.layout.version = gets_it.layout.changed = 1000;
    gets_it.layout.others_order_since = 1000;
    while (routing::copies_of_stripe(tables, {}, handle, stripe).all.front() != self_.index) ++stripe;
    loop_.advance(std::chrono::milliseconds(1100));  // it has sessions
  }
  NfsStatus write_stripe(std::string_view data) {
    return write(stripe << handle.stripe_shift, as_bytes(data)).status;
  }
  Task<NfsStatus> forward(std::uint64_t version) {
    auto bytes = handles_.mint(handle);
    auto result = co_await service::internal_call<wire::ForwardResult>(
        network_, endpoint("store1"), wire::kObjectProgram, wire::ObjectProcedure::kForward,
        wire::ForwardArgs{bytes,
                          version,
                          ++number,
                          Epoch{},
                          stripe << handle.stripe_shift,
                          {},
                          false,
                          as_bytes(std::string_view("abcd"))});
    co_return result ? result->status : NfsStatus::kServerFault;
  }
  Task<bool> recall(std::vector<std::uint32_t> sites, std::uint32_t coordinator, std::uint64_t version) {
    auto result = co_await service::internal_call<wire::ObjectStatusResult>(
        network_, endpoint("store1"), wire::kObjectProgram, wire::ObjectProcedure::kRecall,
        wire::RecallArgs{FileId{}, version, coordinator, std::move(sites)});
    co_return result.has_value();
  }

  FakeCoordinator has_it, gets_it;
  FakeCopy copy;
  std::uint32_t site = 0, mine = 0, other = 0;
  bool recalled = false;
  std::uint64_t stripe = 0, number = 1'800'000'000'000'000'000;
};

TEST_F(CoordinatorsTest, WhoHasTheFilesSiteIsAskedWhereTheTablesDoNotKnowYet) {
  has_it.status = NfsStatus::kJukebox;
  has_it.owner = other;
  write_stripe("abcd");  // it has heard of no version of that one: it is sent too early
  EXPECT_EQ(write_stripe("abcd"), NfsStatus::kOk);
  EXPECT_EQ(copy.forwards, 1u);
  EXPECT_EQ(has_it.asked, 1u) << "told once";
  EXPECT_EQ(gets_it.asked, 1u);
}

// Somebody's write may wait for this forward, and the switch for that write.
TEST_F(CoordinatorsTest, WhileASiteIsSwitchedAWriteWaitsAndAForwardIsSentAgainAtOnce) {
  has_it.status = NfsStatus::kJukebox;
  const MonoTime began = loop_.now();
  EXPECT_EQ(run(forward(10)), NfsStatus::kStale);
  EXPECT_LT(loop_.now() - began, std::chrono::milliseconds(10));
  loop_.after(std::chrono::milliseconds(500), [&] { has_it.status = NfsStatus::kOk; });
  EXPECT_EQ(write_stripe("abcd"), NfsStatus::kOk);
  EXPECT_EQ(copy.forwards, 1u);
}

TEST_F(CoordinatorsTest, ARecallOfSitesIsOfTheirFilesAlone) {
  ASSERT_EQ(write_stripe("abcd"), NfsStatus::kOk);
  const unsigned before = has_it.asked;
  EXPECT_TRUE(run(recall({site + 1}, mine, 500)));
  ASSERT_EQ(write_stripe("abcd"), NfsStatus::kOk);
  EXPECT_EQ(has_it.asked, before);
  EXPECT_TRUE(run(recall({site}, mine, 10)));
  ASSERT_EQ(write_stripe("abcd"), NfsStatus::kOk);
  EXPECT_EQ(has_it.asked, before) << "it is no older";
  has_it.layout.version = has_it.layout.changed = 501;
  EXPECT_TRUE(run(recall({site}, mine, 501)));
  ASSERT_EQ(write_stripe("abcd"), NfsStatus::kOk);
  EXPECT_GT(has_it.asked, before);
}

TEST_F(CoordinatorsTest, ARecallOfSitesWaitsForWritesUnderWay) {
  ASSERT_EQ(write_stripe("abcd"), NfsStatus::kOk);
  copy.slow.emplace();
  loop_.after(std::chrono::milliseconds(100),
              [&] { start(recall({site}, mine, 501), [&](bool) { recalled = true; }); });
  loop_.after(std::chrono::milliseconds(300), [&] {
    EXPECT_FALSE(recalled);
    has_it.layout.version = has_it.layout.changed = 501;
    copy.slow->set(true);
  });
  write_stripe("efgh");
  ASSERT_TRUE(loop_.run_until([&] { return recalled; }, std::chrono::seconds(3)));
}

// Versions are of a coordinator: what one has told says nothing of another's.
TEST_F(CoordinatorsTest, WhatAnotherCoordinatorRecallsIsNotHeardOfThisOne) {
  ASSERT_EQ(write_stripe("abcd"), NfsStatus::kOk);
  EXPECT_TRUE(run(recall({site}, other, 5000)));
  auto response = run(network_.call(forwarded_write(
      endpoint("store1"), handles_.mint(handle), stripe << handle.stripe_shift,
      {.client = {0x0a4d0102, 900}, .xid = Xid{7}, .layout = {static_cast<std::uint16_t>(mine), 1}})));
  ASSERT_TRUE(response);
  auto told = wire::decode_sent_too_early(response->results());
  ASSERT_TRUE(told);
  EXPECT_EQ(told->coordinator, mine);
  EXPECT_LT(told->version, 100u);
}

}  // namespace
}  // namespace slice::storagenode
