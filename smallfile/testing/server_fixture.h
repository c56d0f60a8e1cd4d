// SmallFileServerTest: a small-file server in memory with a fake authority, called through the whole codec as
// clients and managers call it. For tests.
#ifndef SLICE_SMALLFILE_TESTING_SERVER_FIXTURE_H
#define SLICE_SMALLFILE_TESTING_SERVER_FIXTURE_H

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "service/internal_call.h"
#include "service/testing/fake_authority.h"
#include "service/testing/service_fixture.h"
#include "smallfile/server.h"
#include "storage/memory_store.h"

namespace slice::smallfile {

using NfsStatus = nfs3::Status;

inline constexpr std::uint64_t kThreshold = 65536;

// A coordinator that answers every COMMIT with verifier 77, or with a failure.
class FakeCoordinator : public rpc::Program {
 public:
  std::uint32_t number() const override { return nfs3::kProgram; }
  std::uint32_t version() const override { return nfs3::kVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override {
    EXPECT_TRUE(call.internal);
    nfs3::CommitArgs args;
    EXPECT_TRUE(nfs3::decode_arguments(call.arguments, args));
    ++commits;
    if (status == NfsStatus::kOk) {
      nfs3::encode_result(results, nfs3::CommitOk{.verifier = Verifier{77}});
    } else {
      nfs3::encode_failure(results, nfs3::Procedure::kCommit, status, {}, {});
    }
    co_return rpc::Outcome::kReply;
  }
  int commits = 0;
  NfsStatus status = NfsStatus::kOk;
};

class SmallFileServerTest : public service::testing::ServiceFixture {
 protected:
  SmallFileServerTest() : ServiceFixture("small1"), authority(loop_, handles_) {
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
    dispatcher = std::make_unique<rpc::Dispatcher>(metrics_);
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
    authority.add({id});
    nfs3::Attributes& attributes = authority.attributes({id});
    attributes.mode = mode;
    attributes.mtime = attributes.ctime = {100, 0};
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

  // `datagram`: as a proxy or server passes on what a client asked over UDP.
  template <class Args>
  Result<rpc::Response> ask(nfs3::Procedure procedure, const Args& args, std::uint32_t uid,
                            bool datagram = false) {
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
    if (datagram) request.on_behalf = {.client = {0x0a4d0102, 700}, .xid = Xid{1}, .datagram = true};
    return run((datagram ? network_ : clients).call(std::move(request)));
  }
  template <class Args>
  Buffer call(nfs3::Procedure procedure, const Args& args, std::uint32_t uid, bool datagram = false) {
    auto response = ask(procedure, args, uid, datagram);
    EXPECT_TRUE(response) << response.error().message;
    return response ? Buffer(response->results()) : Buffer();
  }
  struct ReadReply {
    NfsStatus status = NfsStatus::kServerFault;
    std::string data;
    bool eof = false;
    nfs3::PostOpAttributes attributes;
  };
  ReadReply read(const routing::HandleBytes& handle, std::uint64_t offset, std::uint32_t count,
                 std::uint32_t uid = 1000, bool datagram = false) {
    Buffer results = call(nfs3::Procedure::kRead,
                          nfs3::ReadArgs{.file = handle, .offset = offset, .count = count}, uid, datagram);
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
    NfsStatus status = NfsStatus::kServerFault;
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
  std::pair<NfsStatus, nfs3::CommitOk> commit(const routing::HandleBytes& handle, std::uint32_t uid = 1000) {
    Buffer results = call(nfs3::Procedure::kCommit, nfs3::CommitArgs{.file = handle}, uid);
    rpc::XdrReader in(results.view());
    std::pair<NfsStatus, nfs3::CommitOk> reply;
    EXPECT_TRUE(nfs3::decode_result(in, reply.first, reply.second));
    return reply;
  }
  wire::ObjectName object(std::uint64_t id) { return {handles_.volume(), {id}, wire::ObjectKind::kFile}; }
  template <class R, class Args>
  R manage(wire::ObjectProcedure procedure, const Args& args) {
    return run(service::internal_call<R>(network_, small, wire::kObjectProgram, procedure, args)).value();
  }
  // At the authority and here, or only here.
  NfsStatus truncate(std::uint64_t id, std::uint64_t size, std::uint32_t epoch) {
    authority.attributes({id}).size = size;
    authority.attributes({id}).rdev_major = epoch;
    return truncate_here(id, size, epoch);
  }
  NfsStatus truncate_here(std::uint64_t id, std::uint64_t size, std::uint32_t epoch) {
    return manage<wire::ObjectStatusResult>(wire::ObjectProcedure::kTruncate,
                                            wire::ObjectTruncateArgs{object(id), size, {epoch}})
        .status;
  }

  NfsStatus remove_here(std::uint64_t id) {
    return manage<wire::ObjectStatusResult>(wire::ObjectProcedure::kRemove,
                                            wire::ObjectRemoveArgs{object(id)})
        .status;
  }

  const rpc::Endpoint small = endpoint("small1");
  rpc::InProcessNetwork clients{loop_, std::nullopt, rpc::Endpoint{0x0a4d0102, 700}};
  service::testing::FakeAuthority authority;
  storage::MemoryMedium medium;
  std::unique_ptr<SmallFileServer> server;
  std::unique_ptr<rpc::Dispatcher> dispatcher;
};

}  // namespace slice::smallfile

#endif  // SLICE_SMALLFILE_TESTING_SERVER_FIXTURE_H
