// The generator's connection over loopback: it sends again until it is answered, and gives up in time.
#include "tests/spec-like/connection.h"

#include <gtest/gtest.h>

#include "rpc/server.h"
#include "rpc/testing/test_programs.h"

namespace slice::load {
namespace {

using namespace std::chrono_literals;
constexpr std::uint32_t kLoopback = 0x7f000001;
constexpr std::uint32_t kEcho = 1, kDrops = 2, kGarbage = 3, kWaits = 7;

class ConnectionTest : public ::testing::TestWithParam<Transport> {
 protected:
  ConnectionTest() { dispatcher.add(echo); }

  void serve() {
    server = std::make_unique<rpc::Server>(loop, dispatcher, metrics);
    auto bound = server->listen(at);
    ASSERT_TRUE(bound) << bound.error().message;
    at = *bound;
  }
  void connect(Duration patience = 10s) {
    connection.emplace(loop, Connection::Options{.server = at,
                                                 .transport = GetParam(),
                                                 .credential = {.machine_name = "test", .uid = 7, .gid = 8},
                                                 .patience = patience,
                                                 .resend_after = 50ms});
  }
  // A call that has begun; its answer comes later.
  std::unique_ptr<std::optional<Result<Connection::Reply>>> begin(std::uint32_t procedure,
                                                                  std::uint32_t argument) {
    rpc::XdrWriter call = connection->begin(rpc::EchoProgram::kNumber, 2, procedure);
    call.u32(argument);
    auto out = std::make_unique<std::optional<Result<Connection::Reply>>>();
    spawn(connection->call(std::move(call)), *out);
    return out;
  }
  Result<Connection::Reply> finish(std::optional<Result<Connection::Reply>>& out) {
    EXPECT_TRUE(loop.run_until([&] { return out.has_value(); }, 20s));
    return std::move(*out);
  }
  Result<Connection::Reply> call(std::uint32_t procedure, std::uint32_t argument) {
    return finish(*begin(procedure, argument));
  }

  Metrics metrics;
  rpc::EpollLoop loop;
  rpc::EchoProgram echo;
  rpc::Dispatcher dispatcher{metrics};
  rpc::Endpoint at{kLoopback, 0};
  std::unique_ptr<rpc::Server> server;
  std::optional<Connection> connection;
};

TEST_P(ConnectionTest, CarriesTheCredentialAndTheArguments) {
  serve();
  connect();
  auto reply = call(kEcho, 0xabcd);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(to_hex(reply->results()), "0000abcd");
  EXPECT_FALSE(reply->resent);
  EXPECT_TRUE(echo.last.has_auth_sys);
  EXPECT_EQ(echo.last.credential.uid, 7u);
  EXPECT_EQ(echo.last.credential.gid, 8u);
}

TEST_P(ConnectionTest, ManyCallsAreUnderWayAtOnce) {
  serve();
  connect();
  std::vector<std::unique_ptr<std::optional<Result<Connection::Reply>>>> calls;
  for (std::uint32_t i = 0; i < 500; ++i) calls.push_back(begin(kEcho, i));
  for (std::uint32_t i = 0; i < 500; ++i) {
    auto reply = finish(*calls[i]);
    ASSERT_TRUE(reply) << reply.error().message;
    ASSERT_EQ(load_be<std::uint32_t>(reply->results().data()), i);
  }
}

TEST_P(ConnectionTest, AServerThatComesLateAnswersStill) {
  serve();
  server.reset();  // its port is free again
  connect();
  auto waiting = begin(kEcho, 5);
  loop.run_until([] { return false; }, 200ms);
  serve();
  auto reply = finish(*waiting);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(to_hex(reply->results()), "00000005");
}

TEST_P(ConnectionTest, ACallWhoseServerRestartedIsSentAgain) {
  serve();
  connect();
  auto waiting = begin(kWaits, 9);
  loop.run_until([&] { return echo.calls > 0; }, 5s);
  server.reset();
  echo.release();  // to nobody
  serve();
  const std::uint64_t before = echo.calls;
  loop.run_until([&] { return echo.calls > before; }, 5s);
  echo.release();
  auto reply = finish(*waiting);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_TRUE(reply->resent);
  EXPECT_GT(connection->counters().resent, 0u);
}

TEST_P(ConnectionTest, PatienceEnds) {
  serve();
  connect(300ms);
  auto reply = call(kDrops, 1);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::kTimedOut);
  if (GetParam() == Transport::kUdp) EXPECT_GT(echo.calls, 1u);  // it was sent again meanwhile
}

TEST_P(ConnectionTest, RefusalsAreErrors) {
  serve();
  connect();
  auto reply = call(kGarbage, 1);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::kInvalid);
}

INSTANTIATE_TEST_SUITE_P(Transports, ConnectionTest, ::testing::Values(Transport::kTcp, Transport::kUdp));

}  // namespace
}  // namespace slice::load
