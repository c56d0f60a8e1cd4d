// MirroredFileTest: a storage node's part in a mirrored file, with a fake coordinator and a fake node that
// has the other copy.
#ifndef SLICE_STORAGENODE_TESTING_MIRRORED_FIXTURE_H
#define SLICE_STORAGENODE_TESTING_MIRRORED_FIXTURE_H

#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "bpf/shared/file_handle.h"
#include "routing/copies.h"
#include "storagenode/testing/server_fixture.h"
#include "wire/coordinator.h"
#include "wire/layout.h"

namespace slice::storagenode {

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
      case wire::CoordinatorProcedure::kMissed: {
        wire::MissedArgs args;
        EXPECT_TRUE(decode(call.arguments, args));
        ++missed;
        const bool refused = refuses && refuses(args.server, args.stripes);
        if (!refused) noted.emplace_back(args.server, args.stripes);
        encode(results, wire::CoordinatorResult{.status = refused ? NfsStatus::kJukebox : notes});
        co_return rpc::Outcome::kReply;
      }
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
  std::function<bool(std::uint32_t server, const wire::StripeRange& stripes)> refuses;
  std::vector<std::pair<std::uint32_t, wire::StripeRange>> noted;  // what was not refused
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
    if (call.procedure == static_cast<std::uint32_t>(wire::ObjectProcedure::kCopy)) {
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
    encode(results, wire::ForwardResult{.status = args.epoch < epoch ? NfsStatus::kNotSync : NfsStatus::kOk,
                                        .epoch = epoch});
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
inline rpc::Request forwarded_write(rpc::Endpoint to, const routing::HandleBytes& handle,
                                    std::uint64_t offset, const rpc::OnBehalf& on_behalf) {
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

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_TESTING_MIRRORED_FIXTURE_H
