#include "proxy/tables/map_cache.h"

#include <gtest/gtest.h>

#include <vector>

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;

class MapCacheTest : public ::testing::Test {
 protected:
  std::optional<std::uint32_t> site(std::uint64_t stripe) { return cache_.site({}, FileId{7}, stripe, now_); }
  static wire::MapPiece piece(std::uint64_t number, std::uint32_t first_site) {
    wire::MapPiece made{.number = number, .sites = {}};
    for (std::size_t i = 0; i < wire::kStripesOfPiece; ++i) {
      made.sites.push_back(first_site + static_cast<std::uint32_t>(i));
    }
    return made;
  }

  Metrics metrics_;
  std::vector<std::uint64_t> asked_;
  MapCache cache_{[this](const routing::HandleBytes&, FileId file, std::uint64_t stripe) {
                    EXPECT_EQ(file, FileId{7});
                    asked_.push_back(stripe);
                  },
                  metrics_};
  MonoTime now_{1s};
};

TEST_F(MapCacheTest, OneQuestionForAPieceWhichNobodyWaitsFor) {
  EXPECT_EQ(site(3), std::nullopt);
  EXPECT_EQ(site(255), std::nullopt);
  EXPECT_EQ(site(256), std::nullopt);
  EXPECT_EQ(asked_, (std::vector<std::uint64_t>{3, 256}));
  cache_.put(FileId{7}, piece(0, 100), now_);
  EXPECT_EQ(site(3), 103u);
  EXPECT_EQ(site(255), 355u);
  EXPECT_EQ(asked_.size(), 2u);
}

TEST_F(MapCacheTest, AnOldPieceIsUsedWhileItIsFetchedAnew) {
  site(0);
  cache_.put(FileId{7}, piece(0, 0), now_);
  now_ += MapCache::kLife;
  EXPECT_EQ(site(9), 9u);
  EXPECT_EQ(site(9), 9u);
  EXPECT_EQ(asked_, (std::vector<std::uint64_t>{0, 9}));
  cache_.failed(FileId{7}, 0, now_);
  EXPECT_EQ(site(9), 9u);
  EXPECT_EQ(asked_.size(), 2u) << "not at once again";
  now_ += MapCache::kUnplacedLife;
  site(10);
  EXPECT_EQ(asked_.size(), 3u);
  cache_.put(FileId{7}, piece(0, 1000), now_);
  EXPECT_EQ(site(9), 1009u);
}

TEST_F(MapCacheTest, APieceWithoutAPlaceIsSoonAskedForAgain) {
  site(0);
  cache_.put(FileId{7}, {.number = 0, .sites = {}}, now_);
  EXPECT_EQ(site(0), std::nullopt);
  EXPECT_EQ(asked_.size(), 1u);
  now_ += MapCache::kUnplacedLife;
  EXPECT_EQ(site(0), std::nullopt);
  EXPECT_EQ(asked_.size(), 2u);
}

TEST_F(MapCacheTest, HoldsABoundedNumberOfPieces) {
  for (std::uint64_t i = 0; i < 2 * MapCache::kMaxPieces + 5; ++i) site(i * wire::kStripesOfPiece);
  EXPECT_EQ(metrics_.counter("proxy_map_fetches_total").value(), 2 * MapCache::kMaxPieces + 5);
  cache_.put(FileId{7}, piece(0, 5), now_);  // an answer to what was forgotten
  EXPECT_EQ(site(0), 5u);
}

}  // namespace
}  // namespace slice::proxy
