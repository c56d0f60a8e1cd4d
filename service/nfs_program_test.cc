#include "service/nfs_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bpf/shared/file_handle.h"
#include "service/testing/service_fixture.h"

namespace slice::service {
namespace {

using namespace std::chrono_literals;
using nfs3::Procedure;

// store1's NFS program with a READ that answers as the test says.
class NfsProgramTest : public testing::ServiceFixture {
 protected:
  NfsProgramTest() : testing::ServiceFixture("store1"), program_(context_, wire::Role::kStorage) {
    program_.on<nfs3::ReadArgs>(Procedure::kRead,
                                [this](NfsRequest& request, const nfs3::ReadArgs& args, rpc::XdrWriter& out) {
                                  return read(request, args, out);
                                });
    program_.on<nfs3::WriteArgs>(
        Procedure::kWrite, [this](NfsRequest&, const nfs3::WriteArgs&, rpc::XdrWriter&) -> Task<NfsAnswer> {
          ++writes_;
          co_return nfs3::Status::kNoSpc;
        });
    serve("store1", program_);
    handle_.fileid = FileId{0x77};
    bytes_ = handles_.mint(handle_);
    // An offset whose stripe store1 owns, and one that store2 owns.
    own_ = offset_of("store1");
    others_ = offset_of("store2");
  }

  std::uint64_t offset_of(const std::string& server) const {
    std::uint32_t index = config_.find(server)->index;
    for (std::uint64_t offset = 65536;; offset += 65536) {
      SiteId site = tables_.get()->storage_site(FileId{0x77}, offset, 16);
      if (tables_.get()->owns(index, wire::Role::kStorage, site)) return offset;
    }
  }

  Task<NfsAnswer> read(NfsRequest& request, const nfs3::ReadArgs& args, rpc::XdrWriter& out) {
    seen_ = request.who;
    seen_handle_ = request.handle;
    if (error_) {
      out.u32(0xdeadbeef);  // half a result, to be taken back
      request.attributes = nfs3::Attributes{.size = 55};
      co_await loop_.sleep(5ms);
      co_return *error_;
    }
    nfs3::encode_result(out, nfs3::ReadOk{.attributes = {}, .count = args.count, .eof = true, .data = {}});
    co_return NfsAnswer::written();
  }

  // The results of a call by a client, or the channel's error.
  Result<rpc::Response> call(Procedure procedure, Buffer arguments, rpc::Endpoint from = {0x0a4d0102, 700},
                             std::uint32_t uid = 1000) {
    // The call may be under way there for longer than this.
    auto& plain =
        *used_networks_.emplace_back(std::make_unique<rpc::InProcessNetwork>(loop_, std::nullopt, from));
    auto& dispatcher = *used_.emplace_back(std::make_unique<rpc::Dispatcher>(metrics_));
    dispatcher.add(program_);
    plain.attach(endpoint("store1"), &dispatcher);
    rpc::Request request;
    request.to = endpoint("store1");
    request.program = nfs3::kProgram;
    request.version = nfs3::kVersion;
    request.procedure = static_cast<std::uint32_t>(procedure);
    request.arguments = std::move(arguments);
    request.credential = rpc::AuthSys{.uid = uid, .gid = uid};
    request.timeout = 2 * Relay::kPatience;
    return run(plain.call(std::move(request)));
  }
  template <class Args>
  static Buffer encoded(const Args& args) {
    rpc::XdrWriter out;
    nfs3::encode_arguments(out, args);
    return out.take();
  }
  struct ReadReply {
    nfs3::Status status = nfs3::Status::kOk;
    nfs3::ReadOk ok;
    nfs3::PostOpAttributes failure_attributes;
  };
  ReadReply read_at(std::uint64_t offset, rpc::Endpoint from = {0x0a4d0102, 700}) {
    auto response =
        call(Procedure::kRead, encoded(nfs3::ReadArgs{.file = bytes_, .offset = offset, .count = 1}), from);
    ReadReply reply;
    EXPECT_TRUE(response) << response.error().message;
    rpc::XdrReader in(response->results());
    reply.status = static_cast<nfs3::Status>(in.u32());
    nfs3::decode(in, reply.failure_attributes);
    if (reply.status != nfs3::Status::kOk) EXPECT_TRUE(in.complete()) << "the failure body is READ's";
    return reply;
  }
  nfs3::Status status_of(const Result<rpc::Response>& response) {
    EXPECT_TRUE(response);
    return static_cast<nfs3::Status>(rpc::XdrReader(response->results()).u32());
  }
  std::uint64_t metric(std::string_view name) { return metrics_.counter(name).value(); }

  NfsProgram program_;
  routing::FileHandle handle_;
  routing::HandleBytes bytes_{};
  std::uint64_t own_ = 0, others_ = 0;
  std::optional<NfsAnswer> error_;
  std::vector<std::unique_ptr<rpc::Dispatcher>> used_;
  std::vector<std::unique_ptr<rpc::InProcessNetwork>> used_networks_;
  std::optional<Identity> seen_;
  std::optional<routing::FileHandle> seen_handle_;
  int writes_ = 0;
};

TEST_F(NfsProgramTest, RunsTheOperationWithHandleAndIdentity) {
  store_be<std::uint64_t>(bytes_.data() + 32, (1ull << 63) | (1ull << 62) | 99);
  EXPECT_EQ(read_at(own_).status, nfs3::Status::kOk);
  ASSERT_TRUE(seen_);
  EXPECT_EQ(seen_->uid, 1000u);
  EXPECT_EQ(seen_handle_->fileid, FileId{0x77});
  EXPECT_EQ(seen_handle_->hint.size, 99u);
  EXPECT_EQ(metric("nfs_calls_total{procedure=\"READ\"}"), 1u);
  EXPECT_EQ(metric("nfs_failures_total{procedure=\"READ\"}"), 0u);
}

TEST_F(NfsProgramTest, AnswersNullAndRefusesUnknownProcedures) {
  EXPECT_TRUE(call(Procedure::kNull, {}));
  EXPECT_FALSE(call(static_cast<Procedure>(22), {}));
}

TEST_F(NfsProgramTest, RefusesForgedHandles) {
  bytes_[9] ^= 1;
  EXPECT_EQ(read_at(own_).status, nfs3::Status::kBadHandle);
  EXPECT_FALSE(seen_);
  EXPECT_EQ(metric("nfs_bad_handles_total"), 1u);
}

// Where nobody is to relay it to; relay_test.cc has the rest.
TEST_F(NfsProgramTest, MakesTheClientOfAMisdirectedRequestWait) {
  EXPECT_EQ(read_at(others_).status, nfs3::Status::kJukebox);
  EXPECT_EQ(read_at(0).status, nfs3::Status::kJukebox) << "below the threshold: the small-file server's";
  EXPECT_EQ(status_of(call(Procedure::kGetattr, encoded(nfs3::HandleView(bytes_)))), nfs3::Status::kJukebox);
  EXPECT_FALSE(seen_);
  EXPECT_EQ(metric("nfs_misdirected_total"), 3u);
  // The site moves here.
  wire::Tables moved = tables_.get()->wire();
  moved.generation = Generation{2};
  SiteId site = tables_.get()->storage_site(FileId{0x77}, others_, 16);
  moved.sites[2][site.value] = self_.index;
  tables_.set(routing::RoutingTables::make(config_, moved).value());
  EXPECT_EQ(read_at(others_).status, nfs3::Status::kOk);
}

TEST_F(NfsProgramTest, RefusesClientsWithoutExport) {
  EXPECT_EQ(read_at(own_, {0xc0a80101, 700}).status, nfs3::Status::kAcces);
  EXPECT_EQ(metric("nfs_refused_clients_total"), 1u);
}

TEST_F(NfsProgramTest, RefusesUnreservedPortsWhereTheExportIsSecure) {
  EXPECT_EQ(read_at(own_, {0x0a4d0102, 1024}).status, nfs3::Status::kAcces);
  EXPECT_EQ(metric("nfs_unreserved_ports_total"), 1u);
  EXPECT_EQ(metric("nfs_refused_clients_total"), 0u);
  EXPECT_EQ(read_at(own_, {0x0a4d0102, 1023}).status, nfs3::Status::kOk);
  config_.exports[0].secure = false;
  settings_.set(settings_of(config_));
  EXPECT_EQ(read_at(own_, {0x0a4d0102, 1024}).status, nfs3::Status::kOk);
}

TEST_F(NfsProgramTest, RefusesChangesOverAReadOnlyExport) {
  config_.exports[0].read_only = true;
  settings_.set(settings_of(config_));
  Buffer arguments = encoded(nfs3::WriteArgs{.file = bytes_, .offset = own_});
  EXPECT_EQ(status_of(call(Procedure::kWrite, std::move(arguments))), nfs3::Status::kRofs);
  EXPECT_EQ(writes_, 0);
  EXPECT_EQ(status_of(call(Procedure::kCommit, encoded(nfs3::CommitArgs{.file = bytes_}))),
            nfs3::Status::kRofs);
  EXPECT_EQ(metric("nfs_misdirected_total"), 0u) << "refused where it came to";
  EXPECT_EQ(read_at(own_).status, nfs3::Status::kOk);
}

TEST_F(NfsProgramTest, TurnsFailuresIntoTheProceduresFailureBody) {
  error_ = NfsAnswer(nfs3::Status::kStale);
  auto reply = read_at(own_);
  EXPECT_EQ(reply.status, nfs3::Status::kStale);
  ASSERT_TRUE(reply.failure_attributes);
  EXPECT_EQ(reply.failure_attributes->size, 55u);
  EXPECT_EQ(metric("nfs_failures_total{procedure=\"READ\"}"), 1u);
  Buffer arguments = encoded(nfs3::WriteArgs{.file = bytes_, .offset = own_});
  EXPECT_EQ(status_of(call(Procedure::kWrite, std::move(arguments))), nfs3::Status::kNoSpc);
}

TEST_F(NfsProgramTest, NeverAnswersAnErrorOfItsOwnEnsembleAsIo) {
  for (Errc code : {Errc::kUnavailable, Errc::kTimedOut, Errc::kMisdirected}) {
    error_ = NfsAnswer(Error{code, "a peer is away"});
    EXPECT_EQ(read_at(own_).status, nfs3::Status::kJukebox);
  }
  error_ = NfsAnswer(Error{Errc::kCorrupt, "object 7 offset 4096: checksum"});
  EXPECT_EQ(read_at(own_).status, nfs3::Status::kIo);
}

TEST_F(NfsProgramTest, AFailureThatForgotItsStatusIsNoSuccess) {
  error_ = NfsAnswer(nfs3::Status::kOk);
  EXPECT_EQ(read_at(own_).status, nfs3::Status::kServerFault);
}

TEST_F(NfsProgramTest, DropsWhatItIsToldToDrop) {
  error_ = NfsAnswer::drop();
  auto response = call(Procedure::kRead, encoded(nfs3::ReadArgs{.file = bytes_, .offset = own_, .count = 1}));
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Errc::kTimedOut);
  EXPECT_GT(metrics_.counter("nfs_repeated_calls_total").value(), 0u)
      << "nobody sends it again soon over TCP";
  loop_.advance(std::chrono::minutes(1));
  EXPECT_EQ(metrics_.counter("rpc_calls_dropped_total").value(), 1u) << "its client does now";
}

TEST_F(NfsProgramTest, CallsArgumentsGarbageThatDoNotDecode) {
  Buffer whole = encoded(nfs3::ReadArgs{.file = bytes_, .offset = own_, .count = 1});
  for (std::size_t length = 0; length < whole.size(); length += 4) {
    auto response = call(Procedure::kRead, Buffer(whole.view().first(length)));
    ASSERT_FALSE(response) << length;
    EXPECT_EQ(response.error().code, Errc::kInvalid);
  }
  whole.append(as_bytes("more"));
  EXPECT_FALSE(call(Procedure::kRead, std::move(whole)));
  EXPECT_FALSE(seen_);
}

TEST_F(NfsProgramTest, SumsTheTimeOfOperations) {
  error_ = NfsAnswer(nfs3::Status::kStale);
  read_at(own_);
  EXPECT_EQ(metrics_.histogram("nfs_latency_seconds{procedure=\"READ\"}").sum(),
            std::chrono::milliseconds(5));
}

// A duplicate-request cache would answer in around().
class Around : public NfsProgram {
 public:
  using NfsProgram::NfsProgram;
  Task<NfsAnswer> around(const Operation& operation, NfsRequest& request, rpc::XdrWriter& results) override {
    ++calls;
    if (answer_instead) co_return nfs3::Status::kExist;
    co_return co_await operation(request, results);
  }
  int calls = 0;
  bool answer_instead = false;
};

// A proxy that lost the attributes drops every reply that has room for them: the same reply again would be
// dropped for ever.
TEST_F(NfsProgramTest, AWriteThatComesAgainIsNotAnsweredWithRoomThatNobodyFills) {
  NfsProgram program(context_, wire::Role::kStorage);
  int ran = 0;
  program.on<nfs3::WriteArgs>(
      Procedure::kWrite, [&](NfsRequest&, const nfs3::WriteArgs&, rpc::XdrWriter& out) -> Task<NfsAnswer> {
        ++ran;
        nfs3::encode_result(out, nfs3::WriteOk{.wcc = {.before = {}, .after = nfs3::Attributes{.size = 1}}});
        co_return NfsAnswer::written();
      });
  auto answer = [&](bool can_patch) {
    routing::HandleBytes hinted = bytes_;
    store_be(hinted.data() + SLICE_HANDLE_AT_HINT, slice_hint_encode(can_patch ? 1 : 0, 0, 0));
    Buffer arguments = encoded(nfs3::WriteArgs{.file = hinted, .offset = own_});
    rpc::Call call;
    call.client = {0x0a4d0102, 700};
    call.xid = Xid{5};
    call.procedure = static_cast<std::uint32_t>(Procedure::kWrite);
    call.credential = rpc::AuthSys{.uid = 1000, .gid = 1000};
    call.arguments = arguments.view();
    rpc::XdrWriter results;
    EXPECT_EQ(run(program.handle(call, results)), rpc::Outcome::kReply);
    return static_cast<nfs3::Status>(rpc::XdrReader(results.view()).u32());
  };
  EXPECT_EQ(answer(true), nfs3::Status::kOk);
  EXPECT_EQ(answer(true), nfs3::Status::kOk);
  EXPECT_EQ(answer(false), nfs3::Status::kJukebox);
  EXPECT_EQ(ran, 1);
}

TEST_F(NfsProgramTest, LetsAServerStandAroundItsOperations) {
  Around program(context_, wire::Role::kStorage);
  int ran = 0;
  program.on<nfs3::ReadArgs>(Procedure::kRead,
                             [&ran](NfsRequest&, const nfs3::ReadArgs&, rpc::XdrWriter&) -> Task<NfsAnswer> {
                               ++ran;
                               co_return nfs3::Status::kStale;
                             });
  rpc::Call call;
  call.procedure = static_cast<std::uint32_t>(Procedure::kRead);
  call.internal = true;
  Buffer arguments = encoded(nfs3::ReadArgs{.file = bytes_, .offset = own_, .count = 1});
  call.arguments = arguments.view();
  rpc::XdrWriter results;
  EXPECT_EQ(run(program.handle(call, results)), rpc::Outcome::kReply);
  EXPECT_EQ(ran, 1);
  program.answer_instead = true;
  EXPECT_EQ(run(program.handle(call, results)), rpc::Outcome::kReply);
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(program.calls, 2);
}

TEST(CheckTransferType, NamesWhatIsNoRegularFile) {
  routing::FileHandle handle;
  EXPECT_EQ(check_transfer_type(handle), nfs3::Status::kOk);
  handle.type = nfs3::FileType::kDirectory;
  EXPECT_EQ(check_transfer_type(handle), nfs3::Status::kIsDir);
  handle.type = nfs3::FileType::kSymlink;
  EXPECT_EQ(check_transfer_type(handle), nfs3::Status::kInval);
}

}  // namespace
}  // namespace slice::service
