// rpc::Server and rpc::SocketChannel with sessions between them, over loopback.
#include <gtest/gtest.h>

#include "rpc/client.h"
#include "rpc/server.h"
#include "rpc/testing/test_programs.h"

namespace slice::rpc {
namespace {

using namespace std::chrono_literals;

constexpr EnsembleKey kNextKey{9, 9, 9};

class ServerSessionTest : public ::testing::Test {
 protected:
  ServerSessionTest() {
    dispatcher.add(echo);
    options.keys = &server_keys;
  }
  void serve() {
    server = std::make_unique<Server>(loop, dispatcher, metrics, options);
    auto bound = server->listen({0x7f000001, 0});
    ASSERT_TRUE(bound) << bound.error().message;
    at = *bound;
  }
  Result<Response> call(Channel& by, std::uint32_t procedure, Buffer arguments = {}) {
    Request request{.to = at,
                    .program = EchoProgram::kNumber,
                    .version = 2,
                    .procedure = procedure,
                    .arguments = std::move(arguments),
                    .timeout = 2s};
    std::optional<Result<Response>> out;
    spawn(call_into(by, std::move(request), out));
    EXPECT_TRUE(loop.run_until([&] { return out.has_value(); }, 10s));
    return std::move(*out);
  }
  std::uint64_t count(const char* name) { return metrics.counter(name).value(); }

  static constexpr std::uint32_t kForMembers = 9;  // EchoProgram's procedure
  EpollLoop loop;
  Metrics metrics;
  EchoProgram echo;
  KeyRing server_keys{kTestKey}, client_keys{kTestKey};
  Dispatcher dispatcher{metrics};
  Server::Options options;
  std::unique_ptr<Server> server;
  SocketChannel channel{loop, {.keys = &client_keys, .sender = 7}};
  Endpoint at;
};

TEST_F(ServerSessionTest, AMemberIsKnownByItsSessionAlone) {
  serve();
  ASSERT_TRUE(call(channel, kForMembers));
  EXPECT_TRUE(echo.last.internal);
  EXPECT_EQ(echo.last.sender, 7u);
  EXPECT_EQ(count("rpc_sessions_total"), 1u);
  SocketChannel outside(loop, {});
  auto refused = call(outside, kForMembers);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kDenied);
}

TEST_F(ServerSessionTest, LongCallsAndAnswersUnderBothCoverages) {
  serve();
  KeyRing all(std::vector{kTestKey}, Coverage::kAll);
  SocketChannel covered(loop, {.keys = &all});
  Buffer bytes(1'000'000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes.data()[i] = static_cast<std::uint8_t>(i * 7 >> 3);
  for (SocketChannel* each : {&channel, &covered}) {
    auto answer = call(*each, 1, bytes.clone());
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_TRUE(std::ranges::equal(answer->results(), bytes.view()));
  }
}

TEST_F(ServerSessionTest, AnotherKeyIsRefusedAndCounted) {
  serve();
  client_keys.replace({kNextKey});
  auto refused = call(channel, kForMembers);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kDenied);
  EXPECT_EQ(count("rpc_sessions_refused_total"), 1u);
  EXPECT_EQ(echo.calls, 0u);
}

TEST_F(ServerSessionTest, NoSessionsFromOutsideOfTheInternalNetworks) {
  options.internal = [](IpAddress address) { return address == 0x0a4d0001; };
  serve();
  EXPECT_FALSE(call(channel, kForMembers));
  EXPECT_EQ(echo.calls, 0u);
  EXPECT_EQ(count("rpc_sessions_total"), 0u);
  EXPECT_GT(count("rpc_sessions_refused_total"), 0u);
}

TEST_F(ServerSessionTest, SessionsUnderAVoidKeyEndAndBeginAnewUnderTheNext) {
  serve();
  ASSERT_TRUE(call(channel, kForMembers));
  server_keys.replace({kTestKey, kNextKey});
  EXPECT_EQ(server->end_sessions_of_other_keys(), 0u);
  client_keys.replace({kNextKey, kTestKey});
  server_keys.replace({kNextKey});
  EXPECT_EQ(server->end_sessions_of_other_keys(), 1u);
  ASSERT_TRUE(call(channel, kForMembers));
  EXPECT_EQ(channel.connects(), 2u);
  EXPECT_EQ(count("rpc_sessions_total"), 2u);
}

// A client that has not heard yet that its key is void is told, and comes back with the next.
TEST_F(ServerSessionTest, ACallUnderWaySurvivesTheEndOfItsSession) {
  serve();
  std::optional<Result<Response>> out;
  spawn(call_into(channel, {.to = at, .program = EchoProgram::kNumber, .version = 2, .procedure = 7}, out));
  ASSERT_TRUE(loop.run_until([&] { return echo.waiting.size() == 1; }, 5s));
  client_keys.replace({kNextKey});
  server_keys.replace({kNextKey});
  EXPECT_EQ(server->end_sessions_of_other_keys(), 1u);
  ASSERT_TRUE(loop.run_until([&] { return echo.waiting.size() == 2; }, 5s));
  echo.release();
  ASSERT_TRUE(loop.run_until([&] { return out.has_value(); }, 5s));
  EXPECT_TRUE(*out);
}

}  // namespace
}  // namespace slice::rpc
