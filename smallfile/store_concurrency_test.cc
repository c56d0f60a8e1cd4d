// Many operations at once on few files, with a slow disk, a small memory and saving in between: each slot of
// a file has one client, who always reads what it wrote last.
#include <gtest/gtest.h>

#include <random>

#include "smallfile/testing/store_harness.h"

namespace slice::smallfile {
namespace {

constexpr std::size_t kSlot = 1500;  // slots cross block boundaries
constexpr std::size_t kSlots = 40;

struct Client {
  std::uint64_t file;
  std::uint64_t slot;
  std::string last = std::string(kSlot, '\0');
};

class StoreConcurrencyTest : public ::testing::TestWithParam<unsigned>, public StoreHarness {
 protected:
  Task<void> live(Client& client, unsigned seed, int rounds, std::size_t& left) {
    std::mt19937 random(seed);
    for (int round = 0; round < rounds; ++round) {
      std::uint64_t offset = client.slot * kSlot;
      std::string data(kSlot, static_cast<char>('a' + random() % 26));
      data[0] = static_cast<char>(round);
      bool stable = random() % 3 == 0;
      auto written =
          co_await store->write({client.file}, {.offset = offset, .data = as_bytes(data), .stable = stable});
      EXPECT_TRUE(written) << written.error().message;
      client.last = data;
      if (random() % 4 == 0) co_await loop.sleep(std::chrono::milliseconds(random() % 8));
      if (!stable && random() % 3 == 0) EXPECT_TRUE(co_await store->commit({client.file}));
      std::string got(kSlot, '?');
      auto read = co_await store->read({client.file}, offset,
                                       {reinterpret_cast<std::uint8_t*>(got.data()), got.size()});
      EXPECT_TRUE(read) << read.error().message;
      EXPECT_EQ(got, data);
      if (random() % 50 == 0) EXPECT_TRUE(co_await store->save());
    }
    --left;
  }
};

TEST_P(StoreConcurrencyTest, EveryClientReadsItsOwnWrites) {
  options.cache_bytes = 160 << 10;
  options.segment_bytes = 32 << 10;
  options.journal_bytes = 96 << 10;
  must_open();
  disk.set_delay(Duration{0}, std::chrono::milliseconds(2));
  std::vector<Client> clients;
  for (std::uint64_t file = 1; file <= 6; ++file) {
    for (std::uint64_t slot = 0; slot < kSlots; slot += 3) clients.push_back({.file = file, .slot = slot});
  }
  std::size_t left = clients.size();
  unsigned seed = GetParam() * 1000;
  for (Client& client : clients) spawn(live(client, ++seed, 12, left));
  ASSERT_TRUE(loop.run_until([&] { return left == 0; }));
  EXPECT_GT(metric("smallfile_block_loads_total"), 100u);
  EXPECT_GT(metric("smallfile_checkpoints_total"), 5u);
  for (std::uint64_t file = 1; file <= 6; ++file) ASSERT_TRUE(run(store->commit({file})));
  restart(Crash::kDropUnsynced);
  for (const Client& client : clients) {
    EXPECT_EQ(*range(client.file, client.slot * kSlot, kSlot), client.last);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, StoreConcurrencyTest, ::testing::Range(0u, 6u));

}  // namespace
}  // namespace slice::smallfile
