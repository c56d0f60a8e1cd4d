// A storage node with its programs, over the whole codec, with a fake directory server and manager and a disk
// in memory.
#ifndef SLICE_STORAGENODE_TESTING_SERVER_FIXTURE_H
#define SLICE_STORAGENODE_TESTING_SERVER_FIXTURE_H

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "service/internal_call.h"
#include "service/testing/fake_authority.h"
#include "service/testing/service_fixture.h"
#include "storagenode/server.h"
#include "storagenode/testing/store_harness.h"
#include "wire/manager.h"

namespace slice::storagenode {

using nfs3::Procedure;
using nfs3::Stable;
using service::testing::FakeAuthority;
using service::testing::sample_config;
using service::testing::ServiceFixture;
using NfsStatus = nfs3::Status;

inline constexpr std::uint64_t kThreshold = 64 << 10;

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

inline EnsembleConfig one_store() {
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
  // While all that a test serves to it is there: it tells them that it ends.
  void TearDown() override {
    if (server) stop_server();
    ServiceFixture::TearDown();
  }

  void start_server() {
    server = std::make_unique<StorageServer>(context_);
    ASSERT_TRUE(run(server->start()));
    dispatchers.push_back(std::make_unique<rpc::Dispatcher>(metrics_));
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

  // What a proxy may stamp on the handle's hint, which no MAC covers (docs/formats/file-handle.md).
  routing::HandleBytes stamped(const routing::FileHandle& of, std::uint64_t hint) {
    auto bytes = handles_.mint(of);
    store_be(bytes.data() + 32, hint);
    return bytes;
  }
  static constexpr std::uint64_t kCanPatch = std::uint64_t{1} << 63, kSizeValid = std::uint64_t{1} << 62;

  // `datagram`: as a proxy or server passes on what a client asked over UDP.
  template <class Args>
  Result<rpc::Response> call(Procedure procedure, const Args& args, std::uint32_t uid = 1000,
                             bool datagram = false) {
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
    if (datagram) request.on_behalf = {.client = {0x0a4d0102, 900}, .xid = Xid{1}, .datagram = true};
    return run((datagram ? network_ : client).call(std::move(request)));
  }
  struct ReadReply {
    NfsStatus status{};
    nfs3::ReadOk ok;
    std::string data;
  };
  ReadReply read(std::uint64_t offset, std::uint32_t count, std::uint64_t hint = 0, std::uint32_t uid = 1000,
                 bool datagram = false) {
    auto bytes = stamped(handle, hint);
    auto response = call(Procedure::kRead, nfs3::ReadArgs{bytes, offset, count}, uid, datagram);
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

// Two storage nodes: stripes of the other one are not touched here.
class TwoNodesTest : public StorageServerTest {
 protected:
  static constexpr std::uint64_t kUnit = 64 << 10;
  TwoNodesTest() : StorageServerTest(sample_config()) {}
  bool ours(std::uint64_t offset) const {
    return tables_.get()->owns(self_.index, wire::Role::kStorage,
                               tables_.get()->storage_site(handle.fileid, offset, handle.stripe_shift));
  }
  // Where a stripe of this node's begins that one of the other follows.
  std::uint64_t end_of_ours() const {
    std::uint64_t offset = kThreshold;
    while (!ours(offset) || ours(offset + kUnit)) offset += kUnit;
    return offset;
  }
};

inline Buffer bytes_of(std::size_t n, std::uint64_t seed) {
  return pattern(n, seed);
}
inline std::string text(const Buffer& bytes) {
  return std::string(as_text(bytes.view()));
}

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_TESTING_SERVER_FIXTURE_H
