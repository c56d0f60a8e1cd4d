#include "rpc/in_process.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/manual_loop.h"
#include "rpc/call.h"
#include "rpc/testing/test_programs.h"

namespace slice::rpc {
namespace {

using namespace std::chrono_literals;

class InProcessTest : public ::testing::Test {
 protected:
  InProcessTest() {
    dispatcher.add(echo);
    network.attach(kAt, &dispatcher);
  }
  Request request(std::uint32_t procedure, std::uint32_t program = EchoProgram::kNumber,
                  std::uint32_t version = 2) {
    return {.to = kAt,
            .program = program,
            .version = version,
            .procedure = procedure,
            .arguments = number_argument(5)};
  }
  Result<Response> call(Request asked) {
    std::optional<Result<Response>> out;
    spawn(call_into(network, std::move(asked), out));
    EXPECT_TRUE(loop.run_until([&] { return out.has_value(); }));
    return std::move(*out);
  }

  static constexpr Endpoint kAt{0x0a000001, 2049};
  ManualLoop loop;
  Metrics metrics;
  EchoProgram echo;
  Dispatcher dispatcher{metrics};
  InProcessNetwork network{loop, kTestKey, {0x0a000002, 1}, 3};
};

TEST_F(InProcessTest, CallsPassTheWholeCodec) {
  auto reply = call(request(1));
  ASSERT_TRUE(reply);
  EXPECT_EQ(to_hex(reply->results()), "00000005");
  EXPECT_TRUE(echo.last.internal);
  EXPECT_EQ(echo.last.sender, 3u);
  EXPECT_EQ(network.delivered(), 1u);
}

TEST_F(InProcessTest, UnknownProgramVersionAndProcedure) {
  EXPECT_EQ(call(request(1, 12345)).error().code, Errc::kInvalid);
  EXPECT_EQ(call(request(1, EchoProgram::kNumber, 9)).error().code, Errc::kInvalid);
  EXPECT_EQ(call(request(99)).error().code, Errc::kInvalid);
  EXPECT_EQ(metrics.counter("rpc_calls_unknown_total").value(), 3u);
}

TEST_F(InProcessTest, AnAbsentServerIsWaitedFor) {
  network.attach(kAt, nullptr);
  std::optional<Result<Response>> out;
  spawn(call_into(network, request(1), out));
  loop.advance(4s);
  EXPECT_FALSE(out.has_value());
  network.attach(kAt, &dispatcher);
  loop.run_ready();
  ASSERT_TRUE(out.has_value());
  EXPECT_TRUE(*out);

  network.attach(kAt, nullptr);
  MonoTime start = loop.now();
  EXPECT_EQ(call(request(1)).error().code, Errc::kTimedOut);
  EXPECT_EQ(loop.now() - start, 5s);
}

TEST_F(InProcessTest, AnswersOfAServerThatWentAwayAreLostAndAskedForAgain) {
  std::optional<Result<Response>> out;
  spawn(call_into(network, request(7), out));
  loop.run_ready();
  ASSERT_EQ(echo.waiting.size(), 1u);
  network.attach(kAt, nullptr);
  loop.run_ready();
  echo.release();
  loop.run_ready();
  EXPECT_FALSE(out.has_value());
  network.attach(kAt, &dispatcher);
  loop.run_ready();
  ASSERT_EQ(echo.waiting.size(), 1u);
  echo.release();
  loop.run_ready();
  EXPECT_TRUE(out.has_value() && *out);
}

TEST_F(InProcessTest, WhoHasAnotherKeyIsRefused) {
  EnsembleKey other_key = kTestKey;
  other_key[15] ^= 1;
  network.attach(kAt, &dispatcher);
  InProcessNetwork stranger(network, other_key, {0x0a000003, 1});
  std::optional<Result<Response>> out;
  spawn(call_into(stranger, request(1), out));
  ASSERT_TRUE(out.has_value());
  EXPECT_EQ(out->error().code, Errc::kDenied);
  EXPECT_TRUE(keys_differ(out->error()));
  EXPECT_EQ(echo.calls, 0u);
}

// What a member says of itself counts where the carrier vouches for it, and nowhere else.
TEST_F(InProcessTest, AMembersVerifierFromElsewhereIsRefused) {
  Request asked = request(9);
  Buffer record = encode_request(asked, Xid{5}, {.member = true, .sender = 1}, 0);
  for (bool datagram : {false, true}) {
    std::optional<Buffer> reply;
    spawn([](Dispatcher& to, Buffer bytes, bool by_datagram, std::optional<Buffer>& out) -> Task<void> {
      out = co_await to.dispatch(std::move(bytes), {0x0a000009, 9}, 0, {.datagram = by_datagram});
    }(dispatcher, record.clone(), datagram, reply));
    ASSERT_TRUE(reply);
    auto header = decode_reply(reply->view());
    ASSERT_TRUE(header);
    EXPECT_FALSE(header->accepted);
    EXPECT_EQ(header->auth_stat, AuthStat::kRejectedVerifier);
  }
  EXPECT_EQ(echo.calls, 0u);
}

// A proxy on the client's own host says which of its calls it passes on; the address stays the peer's, and no
// port that is not reserved becomes one that is.
TEST_F(InProcessTest, AClientsOwnProxySaysWhichCallItIs) {
  const auto auth_stat = [this](ClientVerifier verifier, std::uint16_t from, bool member = false) {
    XdrWriter out;
    encode_client_header(out, {.xid = Xid{5}, .program = EchoProgram::kNumber, .version = 2, .procedure = 1},
                         verifier);
    std::optional<Buffer> reply;
    spawn([](Dispatcher& to, Buffer bytes, Endpoint peer, bool is_member,
             std::optional<Buffer>& into) -> Task<void> {
      into = co_await to.dispatch(std::move(bytes), peer, 0, {.member = is_member});
    }(dispatcher, out.take(), {0x0a000009, from}, member, reply));
    auto header = decode_reply(reply->view());
    EXPECT_EQ(header->xid, Xid{5});
    return header->accepted ? AuthStat::kOk : header->auth_stat;
  };
  EXPECT_EQ(auth_stat({900, Xid{77}}, 700), AuthStat::kOk);
  EXPECT_EQ(echo.last.client, (Endpoint{0x0a000009, 900}));
  EXPECT_EQ(echo.last.xid, Xid{77});
  EXPECT_EQ(echo.last.carried, Xid{5});
  EXPECT_FALSE(echo.last.forwarded || echo.last.internal);
  EXPECT_EQ(auth_stat({40000, Xid{77}}, 700), AuthStat::kOk) << "of less than it could be";
  EXPECT_EQ(echo.last.client.port, 40000);
  EXPECT_EQ(auth_stat({900, Xid{77}}, 1024), AuthStat::kRejectedVerifier);
  EXPECT_EQ(auth_stat({0, Xid{77}}, 700), AuthStat::kBadVerifier);
  EXPECT_EQ(auth_stat({900, Xid{77}}, 700, true), AuthStat::kRejectedVerifier)
      << "a member speaks for others";
}

// A call forwarded by a proxy: the client's address and xid come from the seal, the reply has the record's
// xid.
Task<void> dispatch_into(Dispatcher& dispatcher, Buffer record, Endpoint peer, std::optional<Buffer>& out) {
  out = co_await dispatcher.dispatch(std::move(record), peer, 0, {.member = true});
}

TEST_F(InProcessTest, AForwardedCallIsItsClients) {
  XdrWriter credential;
  encode_auth_sys(credential, {.machine_name = "c", .uid = 42, .gid = 43});
  CallHeader header{.xid = Xid{900},
                    .program = EchoProgram::kNumber,
                    .version = 2,
                    .procedure = 1,
                    .credential_flavor = kAuthSys,
                    .credential = credential.view().subspan(8),
                    .arguments = as_bytes("args")};
  XdrWriter call;
  encode_member_header(
      call, header,
      {.sender = 9, .generation = Generation{2}, .client = {0x0a4d0102, 800}, .client_xid = Xid{17}});
  call.fixed(header.arguments);
  std::optional<Buffer> reply;
  spawn(dispatch_into(dispatcher, call.take(), {0x0a4d0201, 5}, reply));
  ASSERT_TRUE(reply);
  EXPECT_EQ(decode_reply(reply->view())->xid, Xid{900});
  EXPECT_TRUE(echo.last.forwarded);
  EXPECT_FALSE(echo.last.internal);
  EXPECT_EQ(echo.last.client, (Endpoint{0x0a4d0102, 800}));
  EXPECT_EQ(echo.last.xid, Xid{17});
  EXPECT_EQ(echo.last.credential.uid, 42u);
  EXPECT_EQ(echo.last.relays, 0u);
  EXPECT_FALSE(echo.last.datagram);
}

TEST_F(InProcessTest, AChannelForwardsOnBehalfOfAClient) {
  network.set_generation([] { return Generation{6}; });
  Request asked = request(1);
  asked.credential = AuthSys{.machine_name = "c", .uid = 42, .gid = 43};
  asked.on_behalf = {.client = {0x0a4d0102, 800}, .xid = Xid{17}, .relays = 2, .datagram = true};
  ASSERT_TRUE(call(std::move(asked)));
  EXPECT_TRUE(echo.last.forwarded);
  EXPECT_FALSE(echo.last.internal);
  EXPECT_EQ(echo.last.client, (Endpoint{0x0a4d0102, 800}));
  EXPECT_EQ(echo.last.xid, Xid{17});
  EXPECT_EQ(echo.last.credential.uid, 42u);
  EXPECT_EQ(echo.last.sender, 3u);
  EXPECT_EQ(echo.last.generation, Generation{6});
  EXPECT_EQ(echo.last.relays, 2u);
  EXPECT_TRUE(echo.last.datagram);
}

// It is the ensemble's, and known again by whatever connection it comes.
TEST_F(InProcessTest, AnInternalCallMayHaveAName) {
  Request asked = request(1);
  asked.on_behalf = {.client = {0x0a4d0102, 800}, .xid = Xid{17}, .own = true};
  ASSERT_TRUE(call(std::move(asked)));
  EXPECT_TRUE(echo.last.internal && echo.last.own);
  EXPECT_FALSE(echo.last.forwarded);
  EXPECT_EQ(echo.last.client, (Endpoint{0x0a4d0102, 800}));
  EXPECT_EQ(echo.last.xid, Xid{17});
  asked = request(1);
  asked.on_behalf.own = true;
  ASSERT_TRUE(call(std::move(asked)));
  EXPECT_FALSE(echo.last.own) << "nobody is named";
}

TEST_F(InProcessTest, AnInternalCallMayBeRelayedToo) {
  Request asked = request(1);
  asked.on_behalf.relays = 1;
  ASSERT_TRUE(call(std::move(asked)));
  EXPECT_TRUE(echo.last.internal);
  EXPECT_EQ(echo.last.relays, 1u);
}

TEST_F(InProcessTest, BadCredentialsAreRefused) {
  for (std::uint32_t flavor : {kAuthSys, 6u}) {
    XdrWriter call;
    encode_call(call, {.xid = Xid{1},
                       .program = EchoProgram::kNumber,
                       .version = 2,
                       .procedure = 1,
                       .credential_flavor = flavor,
                       .credential = as_bytes("bad!")});
    std::optional<Buffer> reply;
    spawn(dispatch_into(dispatcher, call.take(), {}, reply));
    ASSERT_TRUE(reply);
    EXPECT_FALSE(decode_reply(reply->view())->accepted);
  }
  EXPECT_EQ(echo.calls, 0u);
}

Task<void> dispatch_from_outside(Dispatcher& dispatcher, Buffer record, std::optional<Buffer>& out) {
  out = co_await dispatcher.dispatch(std::move(record), {0x0a000009, 5}, 0);
}

// Lines about calls that anybody can send, in any number.
class RefusalLinesTest : public InProcessTest {
 protected:
  void send(Buffer record, int times = 1) {
    for (int i = 0; i < times; ++i) {
      std::optional<Buffer> out;
      spawn(dispatch_from_outside(dispatcher, record.clone(), out));
    }
  }
  static Buffer call_of(std::uint32_t procedure, std::uint32_t flavor = kAuthNone) {
    XdrWriter out;
    encode_call(out, {.xid = Xid{1},
                      .program = EchoProgram::kNumber,
                      .version = 2,
                      .procedure = procedure,
                      .credential_flavor = flavor});
    return out.take();
  }
  static constexpr std::string_view kNotAMember =
      "why=not_member: not by a member of the ensemble; asked: program=";
};

// Junk has no line of its own unless one debugs.
TEST_F(RefusalLinesTest, JunkHidesNoneAboutWhoIsNotAMember) {
  ::testing::internal::CaptureStderr();
  send(number_argument(7), 50);
  send(call_of(9));
  std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(metrics.counter("rpc_records_not_calls_total").value(), 50u);
  EXPECT_NE(text.find(kNotAMember), std::string::npos) << text;
}

TEST_F(RefusalLinesTest, EachKindIsLimitedByItself) {
  ::testing::internal::CaptureStderr();
  send(call_of(1, 77), 50);  // an unknown flavor of credential
  send(call_of(3), 50);      // bad arguments
  send(call_of(9), 50);
  std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("why=verifier: "), std::string::npos) << text;
  EXPECT_NE(text.find("refused a call: malformed arguments"), std::string::npos) << text;
  EXPECT_NE(text.find(kNotAMember), std::string::npos) << text;
  EXPECT_LT(std::ranges::count(text, '\n'), 50) << text;
}

}  // namespace
}  // namespace slice::rpc
