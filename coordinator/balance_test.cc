#include "coordinator/balance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "bpf/shared/routing.h"
#include "routing/copies.h"
#include "service/testing/sample_config.h"

namespace slice::coordinator {
namespace {

// Storage nodes 0 to 4 in the tables, by position.
class BalanceTest : public ::testing::Test {
 protected:
  using Servers = Balance::Servers;
  static constexpr std::size_t kPiece = 40;

  BalanceTest() {
    for (const char* name : {"store3", "store4", "store5"})
      service::testing::add_server(config_, name, ServerRole::kStorage);
    tables_ = routing::RoutingTables::make(config_, routing::RoutingTables::initial(config_)).value();
    for (const wire::ServerEntry* each : tables_->servers(wire::Role::kStorage))
      nodes_.push_back(each->server);
  }
  // Evens out; how many copies moved.
  std::size_t even_out(const std::vector<wire::ServerShare>& shares) {
    Balance balance(shares);
    for (std::size_t i = 0; i < stripes_.size(); ++i) balance.count({stripes_[i], bytes_of_(i)});
    if (!balance.plan()) return 0;
    std::size_t moved = 0;
    for (std::size_t at = 0; at < stripes_.size(); at += kPiece) {
      const std::size_t end = std::min(at + kPiece, stripes_.size());
      std::vector<Balance::Stripe> piece;
      for (std::size_t i = at; i < end; ++i) piece.push_back({stripes_[i], bytes_of_(i)});
      for (const auto& [i, there] : balance.moves_of(piece, *tables_, random_)) {
        std::size_t other = 0;
        for (std::size_t copy = 0; copy < there.size(); ++copy)
          other += there[copy] != piece[i].copies[copy] ? 1 : 0;
        EXPECT_EQ(other, 1u) << "one copy goes, the others stay in their places";
        EXPECT_EQ(std::set<std::uint32_t>(there.begin(), there.end()).size(), piece[i].copies.size());
        stripes_[at + i] = there;
        ++moved;
      }
    }
    left_ = balance.left();
    return moved;
  }
  double part_of(std::uint32_t server, std::size_t first = 0, std::size_t count = 1 << 20) const {
    double has = 0, all = 0;
    for (std::size_t i = first; i < std::min(first + count, stripes_.size()); ++i) {
      const Servers& each = stripes_[i];
      const auto bytes = static_cast<double>(bytes_of_(i));
      has += routing::has(each, server) ? bytes : 0;
      all += static_cast<double>(each.size()) * bytes;
    }
    return has / all;
  }
  std::vector<wire::ServerShare> alike(std::size_t count) const {
    std::vector<wire::ServerShare> shares;
    for (std::size_t i = 0; i < count; ++i) shares.push_back({nodes_[i], 1});
    return shares;
  }

  EnsembleConfig config_ = service::testing::sample_config();
  std::shared_ptr<const routing::RoutingTables> tables_;
  std::vector<std::uint32_t> nodes_;
  std::vector<Servers> stripes_;
  std::function<std::uint64_t(std::size_t)> bytes_of_ = [](std::size_t) { return 1; };  // by position
  std::uint64_t seed_ = 3, left_ = 0;
  Random random_ = [this] { return slice_mix64(++seed_); };
};

TEST_F(BalanceTest, WhatIsAddedGetsItsShareAndNothingElseMoves) {
  for (std::size_t i = 0; i < 6000; ++i) stripes_.push_back({nodes_[i % 3], nodes_[(i + 1) % 3]});
  const std::vector<Servers> before = stripes_;
  EXPECT_NEAR(static_cast<double>(even_out(alike(4))), 3000, 12) << "a quarter of 12,000 copies";
  EXPECT_LE(left_, 12u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(part_of(nodes_[i]), 0.25, 0.001) << i;
  for (std::size_t i = 0; i < before.size(); ++i) {
    for (std::uint32_t server : stripes_[i])
      EXPECT_TRUE(routing::has(before[i], server) || server == nodes_[3]);
  }
  EXPECT_EQ(even_out(alike(4)), 0u) << "it is so";
}

// New files have their part of it already; old ones get theirs, each of them.
TEST_F(BalanceTest, EveryFileIsEvenedOutByItself) {
  for (std::size_t i = 0; i < 4000; ++i) stripes_.push_back({nodes_[i % 3], nodes_[(i + 1) % 3]});
  for (std::size_t i = 0; i < 4000; ++i) stripes_.push_back({nodes_[i % 4], nodes_[(i + 1) % 4]});
  EXPECT_NEAR(static_cast<double>(even_out(alike(4))), 2000, 20);
  EXPECT_NEAR(part_of(nodes_[3], 0, 4000), 0.25, 0.003);
  for (std::size_t at = 0; at < 4000; at += 400) EXPECT_NEAR(part_of(nodes_[3], at, 400), 0.25, 0.02) << at;
  EXPECT_NEAR(part_of(nodes_[3], 4000, 4000), 0.25, 0.003);
}

TEST_F(BalanceTest, SharesGoByWeightAndWhoHasNoneIsLeftAlone) {
  for (std::size_t i = 0; i < 8000; ++i) stripes_.push_back({nodes_[i % 4]});
  even_out({{nodes_[0], 1}, {nodes_[1], 2}, {nodes_[4], 3}, {nodes_[3], 0}});
  EXPECT_NEAR(part_of(nodes_[2]), 0.25, 0.0001) << "not among the shares";
  EXPECT_NEAR(part_of(nodes_[3]), 0.25, 0.0001) << "of no weight";
  EXPECT_NEAR(part_of(nodes_[0]), 0.5 / 6, 0.005);
  EXPECT_NEAR(part_of(nodes_[1]), 0.5 / 3, 0.005);
  EXPECT_NEAR(part_of(nodes_[4]), 0.5 / 2, 0.005);
}

TEST_F(BalanceTest, LittleIsLeftAsItIs) {
  for (std::size_t i = 0; i < 300; ++i) stripes_.push_back({nodes_[i % 3]});
  for (std::size_t i = 0; i < 4; ++i) stripes_.push_back({nodes_[0]});
  EXPECT_EQ(even_out(alike(3)), 0u);
  EXPECT_EQ(even_out({}), 0u);
  stripes_.clear();
  EXPECT_EQ(even_out(alike(3)), 0u);
}

// A quarter of all stripes has nearly all bytes; by stripes nothing would go to the fourth of them.
TEST_F(BalanceTest, BytesCountAndNotStripes) {
  const std::uint64_t large = 1 << 20, small = 1 << 12;
  bytes_of_ = [&](std::size_t i) { return i < 3000 ? large : small; };
  for (std::size_t i = 0; i < 3000; ++i) stripes_.push_back({nodes_[i % 3]});
  for (std::size_t i = 0; i < 1000; ++i) stripes_.push_back({nodes_[3]});
  EXPECT_LT(part_of(nodes_[3]), 0.002);
  EXPECT_NEAR(static_cast<double>(even_out(alike(4))), 750, 10) << "large ones";
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(part_of(nodes_[i]), 0.25, 0.002) << i;
  EXPECT_LE(left_, 2 * large);
  EXPECT_EQ(even_out(alike(4)), 0u) << "it is so";
}

TEST_F(BalanceTest, StripesOfAllSizesAreMixed) {
  bytes_of_ = [](std::size_t i) { return std::uint64_t{1} << (12 + i % 9); };
  for (std::size_t i = 0; i < 9000; ++i) stripes_.push_back({nodes_[i / 9 % 3], nodes_[(i / 9 + 1) % 3]});
  EXPECT_GT(even_out(alike(5)), 0u);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(part_of(nodes_[i]), 0.2, 0.2 * Balance::kStray) << i;
}

TEST_F(BalanceTest, WhatHasNoBytesIsLeftAlone) {
  bytes_of_ = [](std::size_t i) { return i < 300 ? 0 : 1000; };
  for (std::size_t i = 0; i < 300; ++i) stripes_.push_back({nodes_[0]});
  for (std::size_t i = 0; i < 300; ++i) stripes_.push_back({nodes_[i % 3]});
  EXPECT_EQ(even_out(alike(3)), 0u);
  even_out(alike(4));
  for (std::size_t i = 0; i < 300; ++i) EXPECT_EQ(stripes_[i], Servers{nodes_[0]});
}

TEST_F(BalanceTest, CopiesStayOnDistinctHosts) {
  wire::Tables tables = tables_->wire();
  for (std::size_t i = 0; i < 4; ++i)
    tables.servers[nodes_[i]].host = i == 1 || i == 3 ? "b" : i == 0 ? "a" : "c";
  tables_ = routing::RoutingTables::make(config_, tables).value();
  for (std::size_t i = 0; i < 6000; ++i) stripes_.push_back({nodes_[i % 3], nodes_[(i + 1) % 3]});
  // Most of what two of them are to give is in the same stripes, so that not all goes at once.
  for (int times = 0; times < 3; ++times) even_out(alike(4));
  for (const Servers& each : stripes_) {
    EXPECT_NE(tables_->server(each[0])->host, tables_->server(each[1])->host);
  }
  EXPECT_NEAR(part_of(nodes_[3]), 0.25, 0.25 * Balance::kStray);
}

}  // namespace
}  // namespace slice::coordinator
