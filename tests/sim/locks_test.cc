// Locks of clients, simulated: nobody has what another has, and none is left.
#include "tests/sim/locks.h"

#include <gtest/gtest.h>

#include "common/log.h"
#include "rpc/message.h"
#include "tests/sim/seeds.h"
#include "wire/nlm4.h"

namespace slice::sim {
namespace {

class LocksTest : public ::testing::Test {
 protected:
  LocksTest() { configure_log("sim", LogLevel::kError); }
  static SimulationOptions options(std::uint64_t seed) {
    return {.ensemble = {.seed = seed, .directory_servers = 2}, .clients = 6, .operations = 20};
  }
  static SimulationOptions with_proxies(std::uint64_t seed) {
    SimulationOptions given = options(seed);
    given.ensemble.proxies = 2;
    given.ensemble.managers = 1;
    return given;
  }
};

TEST_F(LocksTest, AreOneClients) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed)
    ASSERT_EQ(simulate_locks(options(seed)).failure, "") << seed;
}

TEST_F(LocksTest, AreGivenToWhoWaits) {
  unsigned told = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SimulationResult result = simulate_locks(with_proxies(seed), [&](std::string_view line) {
      told += line.find("is told of") != line.npos && line.ends_with("granted") ? 1 : 0;
    });
    ASSERT_EQ(result.failure, "") << seed;
  }
  EXPECT_GT(told, kSeeds * 10);
}

TEST_F(LocksTest, OutliveTheirServersAndMoves) {
  for (std::uint64_t seed = 1; seed <= kSeeds / 2; ++seed) {
    SimulationOptions fails_over = options(seed), moves = options(seed);
    give_standbys(fails_over.ensemble);
    moves.ensemble.managers = 1;
    moves.ensemble.moves = true;
    ASSERT_EQ(simulate_locks(fails_over).failure, "") << "failover, seed " << seed;
    ASSERT_EQ(simulate_locks(moves).failure, "") << "moves, seed " << seed;
  }
}

// A server that gives a lock to two.
TEST_F(LocksTest, GivenTwiceAreNoticed) {
  unsigned noticed = 0;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SimulationOptions given = options(seed);
    given.tamper = [](rpc::Endpoint, rpc::Endpoint, Buffer& bytes) {
      auto reply = rpc::decode_reply(bytes.view());
      nlm4::Result result;
      if (!reply || !decode(reply->results, result) || as_text(result.cookie) != "1") return;
      if (result.status != nlm4::Status::kDenied) return;
      store_be(bytes.data() + bytes.size() - 4, static_cast<std::uint32_t>(nlm4::Status::kGranted));
    };
    noticed += simulate_locks(given).failure.find("both have bytes") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(noticed, 3u);
}

TEST_F(LocksTest, TheSameSeedIsTheSameRun) {
  EXPECT_EQ(simulate_locks(with_proxies(3)).checksum, simulate_locks(with_proxies(3)).checksum);
}

}  // namespace
}  // namespace slice::sim
