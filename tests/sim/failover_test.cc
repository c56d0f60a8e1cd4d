// Servers with backing sets and second hosts: nothing acknowledged is lost, and no two answer at once, while
// hosts die with their disks, are cut off one way or both, and processes are stopped and go on, those of
// storage nodes, too.
#include <gtest/gtest.h>

#include "common/log.h"
#include "tests/sim/bytes.h"
#include "tests/sim/seeds.h"

namespace slice::sim {
namespace {

using Policy = VolumeConfig::NamePolicy;

class FailoverTest : public ::testing::TestWithParam<Policy> {
 protected:
  FailoverTest() { configure_log("sim", LogLevel::kError); }
  static SimulationOptions names(std::uint64_t seed) {
    SimulationOptions given{
        .ensemble = {
            .seed = seed, .directory_servers = 2, .policy = GetParam(), .managers = managers_of(seed)}};
    give_standbys(given.ensemble);
    return given;
  }
  static SimulationOptions bytes(std::uint64_t seed) {
    const bool hashing = GetParam() == Policy::kNameHashing;
    SimulationOptions given{.ensemble = {.seed = seed,
                                         .storage_nodes = 4,
                                         .copies = 2,
                                         .placement = hashing ? Placement::kFreeSpace : Placement::kHash,
                                         .managers = managers_of(seed)},
                            .operations = 20};
    give_standbys(given.ensemble);
    return given;
  }
};

TEST_P(FailoverTest, WhatClientsSawIsExplained) {
  unsigned elsewhere = 0, fenced = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SimulationResult result = simulate(names(seed), [&](std::string_view line) {
      elsewhere += line.ends_with("' serves") ? 1 : 0;
      fenced += line.find("is not its own any more") != line.npos ? 1 : 0;
    });
    ASSERT_EQ(result.failure, "") << "seed " << seed;
  }
  EXPECT_GT(elsewhere, kSeeds / 4);
  EXPECT_GT(fenced, kSeeds / 8);
}

TEST_P(FailoverTest, ReadsShowWhatWasWritten) {
  for (std::uint64_t seed = 1; seed <= kSeeds / 2; ++seed) {
    ASSERT_EQ(simulate_bytes(bytes(seed)).failure, "") << "seed " << seed;
  }
}

TEST_P(FailoverTest, TheSameSeedIsTheSameRun) {
  for (std::uint64_t seed = 1; seed <= (kPart ? 1 : 2); ++seed) {
    EXPECT_EQ(simulate(names(seed)).checksum, simulate(names(seed)).checksum);
    EXPECT_EQ(simulate_bytes(bytes(seed)).checksum, simulate_bytes(bytes(seed)).checksum);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, FailoverTest,
                         ::testing::Values(Policy::kMkdirSwitching, Policy::kNameHashing));

#if !SLICE_SIM_PART  // it takes dozens of seeds until one fails, and what is looked at is the simulation
                     // itself

// The first of these seeds that fails with such a fencing; 0: none does.
std::uint64_t noticed_at(BrokenFencing broken, std::uint64_t seeds) {
  configure_log("sim", LogLevel::kError);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SimulationOptions given{.ensemble = {.seed = seed, .directory_servers = 2}};
    if (broken == BrokenFencing::kManagers) given.ensemble.managers = 3;
    give_standbys(given.ensemble);
    given.ensemble.broken = broken;
    if (!simulate(given).failure.empty()) return seed;
  }
  return 0;
}

TEST(BrokenFencingTest, NodesThatTakeChangesOfAFormerOwnerAreNoticed) {
  EXPECT_NE(noticed_at(BrokenFencing::kNodes, 200), 0u);
}

TEST(BrokenFencingTest, AnOwnerThatAnswersWithoutSessionsIsNoticed) {
  EXPECT_NE(noticed_at(BrokenFencing::kOwners, 200), 0u);
}

TEST(BrokenFencingTest, ManagersThatAllLeadAreNoticed) {
  EXPECT_NE(noticed_at(BrokenFencing::kManagers, 200), 0u);
}

#endif

}  // namespace
}  // namespace slice::sim
