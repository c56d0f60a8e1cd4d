// The simulated network does what it is said to do to datagrams, and a dead process does nothing.
#include "tests/sim/network.h"

#include <gtest/gtest.h>

#include <string>

namespace slice::sim {
namespace {

using namespace std::chrono_literals;

constexpr rpc::Endpoint kHere{0x0a4d0102, 1}, kThere{0x0a4d0202, 2};

// Notes what it is asked; the answer is empty.
class Echo : public rpc::Program {
 public:
  explicit Echo(Loop& loop) : loop_(loop) {}
  std::uint32_t number() const override { return 77; }
  std::uint32_t version() const override { return 1; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter&) override {
    asked.push_back(call.xid.value);
    co_await loop_.sleep(1ms);
    ++answered;
    co_return rpc::Outcome::kReply;
  }
  std::vector<std::uint32_t> asked;
  unsigned answered = 0;

 private:
  Loop& loop_;
};

class NetworkTest : public ::testing::Test {
 protected:
  NetworkTest() {
    dispatcher_.add(echo_);
    server_.serve(dispatcher_);
  }
  // What becomes of a call, in its time; nothing while it is under way.
  std::shared_ptr<std::optional<bool>> call(Duration timeout = 10s) {
    auto ended = std::make_shared<std::optional<bool>>();
    rpc::Request request{.to = kThere, .program = 77, .version = 1, .procedure = 1, .timeout = timeout};
    spawn([](SimSocket& from, rpc::Request what, std::shared_ptr<std::optional<bool>> to) -> Task<void> {
      auto response = co_await from.call(std::move(what));
      *to = response.has_value();
    }(client_, std::move(request), ended));
    return ended;
  }
  unsigned calls(unsigned count) {
    unsigned good = 0;
    for (unsigned i = 0; i < count; ++i) {
      auto ended = call();
      loop_.advance(20s);
      if (*ended == true) ++good;
    }
    return good;
  }

  ManualLoop loop_;
  Trace trace_{loop_};
  SimNetwork network_{loop_, Random(5), trace_};
  Metrics metrics_;
  ProcessLoop client_loop_{loop_}, server_loop_{loop_};
  SimSocket client_{client_loop_, network_, {.self = kHere}};
  SimSocket server_{server_loop_, network_, {.self = kThere}};
  rpc::Dispatcher dispatcher_{metrics_};
  Echo echo_{server_loop_};
};

TEST_F(NetworkTest, ACallIsAnsweredOnce) {
  EXPECT_EQ(calls(10), 10u);
  EXPECT_EQ(echo_.asked.size(), 10u);
}

TEST_F(NetworkTest, WhatIsLostIsSentAgain) {
  network_.set_faults({.loss = 0.3});
  EXPECT_EQ(calls(50), 50u);
  EXPECT_GT(echo_.asked.size(), 50u);  // some answers were lost, too
}

TEST_F(NetworkTest, WhatIsDoubledArrivesTwice) {
  network_.set_faults({.duplication = 1});
  EXPECT_EQ(calls(10), 10u);
  EXPECT_EQ(echo_.asked.size(), 20u);
}

TEST_F(NetworkTest, DatagramsOvertakeOneAnother) {
  network_.set_faults({.straggling = 0.5, .straggler_delay = 100ms});
  for (unsigned i = 0; i < 50; ++i) call();
  loop_.advance(20s);
  std::vector<std::uint32_t> sorted = echo_.asked;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_NE(echo_.asked, sorted);
}

TEST_F(NetworkTest, NothingPassesACut) {
  network_.cut(kHere, kThere, 3s);
  auto early = call(2s), late = call(10s);
  loop_.advance(2500ms);
  EXPECT_EQ(*early, false);
  EXPECT_TRUE(echo_.asked.empty());
  loop_.advance(5s);
  EXPECT_EQ(*late, true);
  network_.isolate(kThere, 1h);
  EXPECT_EQ(calls(1), 0u);
  network_.heal();
  EXPECT_EQ(calls(1), 1u);
}

TEST_F(NetworkTest, ADeadProcessDoesNothingMore) {
  auto ended = call();
  loop_.run_until([&] { return !echo_.asked.empty(); });
  server_loop_.die();
  server_.close();
  loop_.advance(1min);
  EXPECT_EQ(echo_.answered, 0u);
  EXPECT_EQ(*ended, false);
  auto of_a_dead_one = call();
  client_loop_.die();
  loop_.advance(1min);
  EXPECT_FALSE(of_a_dead_one->has_value());
}

}  // namespace
}  // namespace slice::sim
