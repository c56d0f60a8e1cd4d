#include "dirserver/store/clock_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/sim/random.h"

namespace slice::dirserver {
namespace {

// Keys whose hashes are few, so that searches meet each other all the time.
struct FewHashes {
  std::size_t operator()(std::uint64_t key) const { return key % 5; }
};

template <class Hash>
void behaves_as_a_map(std::uint64_t seed) {
  ClockCache<std::uint64_t, std::string, Hash> cache(~std::uint64_t{0});
  std::map<std::uint64_t, std::string> model;
  sim::Random random(seed);
  for (int step = 0; step < 20000; ++step) {
    const std::uint64_t key = random.below(200);
    if (random.chance(0.4)) {
      std::string value = std::to_string(random.next());
      EXPECT_EQ(*cache.put(key, value, value.size()), value);
      model[key] = value;
    } else if (random.chance(0.4)) {
      cache.erase(key);
      model.erase(key);
    }
    const std::string* found = cache.find(key);
    auto wanted = model.find(key);
    ASSERT_EQ(found != nullptr, wanted != model.end());
    if (found != nullptr) {
      ASSERT_EQ(*found, wanted->second);
    }
  }
  ASSERT_EQ(cache.size(), model.size());
  std::uint64_t bytes = 0;
  std::vector<std::uint64_t> keys;
  for (const auto& [key, value] : model) {
    ASSERT_NE(cache.find(key), nullptr);
    bytes += value.size();
    keys.push_back(key);
  }
  EXPECT_EQ(cache.bytes(), bytes);
  keys.push_back(1000);  // is not there
  cache.prefetch(keys, [](std::uint64_t key) { return key; });
}

TEST(ClockCache, BehavesAsAMap) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) behaves_as_a_map<std::hash<std::uint64_t>>(seed);
}

TEST(ClockCache, BehavesAsAMapWhereHashesCollide) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) behaves_as_a_map<FewHashes>(seed);
}

TEST(ClockCache, KeepsToItsBytesAndWhatIsUsed) {
  ClockCache<std::uint64_t, int> cache(100);
  for (std::uint64_t key = 0; key < 1000; ++key) {
    EXPECT_EQ(*cache.put(key, 1, 10), 1);
    EXPECT_LE(cache.bytes(), 100u);
    EXPECT_NE(cache.find(0), nullptr) << "used again and again, gone after " << key;
  }
  EXPECT_EQ(cache.size(), 10u);
  cache.put(2000, 1, 500);  // alone over the limit
  EXPECT_NE(cache.find(2000), nullptr);
  EXPECT_EQ(cache.size(), 1u);
  cache.put(2000, 2, 20);
  EXPECT_EQ(cache.bytes(), 20u);
  EXPECT_EQ(*cache.find(2000), 2);
}

TEST(ClockCache, ChangesAValueWhereItIs) {
  ClockCache<std::uint64_t, int> cache(100);
  for (std::uint64_t key = 0; key < 5; ++key) cache.put(key, 1, 10);
  cache.update(3, [](int& value) -> std::uint64_t { return 10 * static_cast<std::uint64_t>(value = 6); });
  EXPECT_EQ(*cache.find(3), 6);
  EXPECT_EQ(cache.bytes(), 100u);
  EXPECT_EQ(cache.size(), 5u);
  cache.update(3, [](int&) -> std::uint64_t { return 80; });  // others make room
  EXPECT_NE(cache.find(3), nullptr);
  EXPECT_LE(cache.bytes(), 100u);
  cache.update(77, [](int&) -> std::uint64_t { return 1000; });  // is not there
  EXPECT_LE(cache.bytes(), 100u);
}

}  // namespace
}  // namespace slice::dirserver
