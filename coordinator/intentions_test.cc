#include "coordinator/intentions.h"

#include <algorithm>

#include "service/testing/service_fixture.h"

namespace slice::coordinator {
namespace {

using namespace std::chrono_literals;
using storage::LogSequence;

TEST(IntentionFormat, GoldenBytesAndEveryCut) {
  Intention intention{.operation = Operation::kTruncate, .size = 0x1122334455667788, .epoch = Epoch{9}};
  std::fill(intention.handle.begin(), intention.handle.end(), std::uint8_t{0xab});
  Buffer bytes = encode_record(intention);
  std::string handle;
  for (int i = 0; i < 56; ++i) handle += "ab";
  EXPECT_EQ(to_hex(bytes.view()), "0000000100000002" + handle + "1122334455667788" + "00000009");
  auto decoded = decode_record(bytes.view());
  ASSERT_TRUE(decoded);
  EXPECT_EQ(std::get<Intention>(*decoded).size, intention.size);
  EXPECT_EQ(std::get<Intention>(*decoded).handle, intention.handle);

  Buffer cleared = encode_record(Cleared{{LogSequence{3}, LogSequence{7}}});
  EXPECT_EQ(to_hex(cleared.view()),
            "0000000200000002"
            "0000000000000003"
            "0000000000000007");
  EXPECT_EQ(std::get<Cleared>(*decode_record(cleared.view())).intentions.back(), LogSequence{7});
  for (const Buffer* each : {&bytes, &cleared}) {
    for (std::size_t n = 0; n < each->size(); ++n) EXPECT_FALSE(decode_record(each->view().first(n))) << n;
  }
  for (std::uint32_t operation : {0u, 4u, 0xffffffffu}) {
    store_be(bytes.data() + 4, operation);
    EXPECT_FALSE(decode_record(bytes.view()));
  }
  store_be(cleared.data() + 4, 0x80000004u);
  EXPECT_FALSE(decode_record(cleared.view()));
}

class IntentionsTest : public service::testing::ServiceFixture {
 protected:
  IntentionsTest() : ServiceFixture("coord1") {}

  std::shared_ptr<Intentions> open(Intentions::Options options = {}) {
    owed_.clear();
    auto opened = run(Intentions::open(context_, options, owed_));
    EXPECT_TRUE(opened) << opened.error().message;
    return *opened;
  }
  LogSequence begin(Intentions& intentions, std::uint64_t size) {
    auto sequence = intentions.begin({.operation = Operation::kTruncate, .size = size});
    EXPECT_TRUE(sequence);
    return *sequence;
  }
  std::vector<std::uint64_t> owed_sizes() const {
    std::vector<std::uint64_t> sizes;
    for (const auto& [sequence, intention] : owed_) sizes.push_back(intention.size);
    std::sort(sizes.begin(), sizes.end());
    return sizes;
  }

  Intentions::Owed owed_;
};

TEST_F(IntentionsTest, WhatIsDurableAndNotClearedIsOwed) {
  auto intentions = open();
  LogSequence one = begin(*intentions, 1), two = begin(*intentions, 2);
  ASSERT_TRUE(run(intentions->durable(two)));
  begin(*intentions, 3);  // not durable
  intentions->end(one);   // not cleared yet
  disk_.crash(storage::MemoryDisk::Crash::kDropUnsynced);
  open();
  EXPECT_EQ(owed_sizes(), (std::vector<std::uint64_t>{1, 2}));
}

TEST_F(IntentionsTest, EndedOnesAreClearedTogetherWithinASecond) {
  auto intentions = open();
  std::vector<LogSequence> all;
  for (std::uint64_t i = 0; i < 100; ++i) all.push_back(begin(*intentions, i));
  ASSERT_TRUE(run(intentions->durable(all.back())));
  const Counter& log_syncs = metrics_.counter("log_syncs_total{log=\"intentions\"}");
  std::uint64_t syncs = log_syncs.value();
  for (LogSequence each : all) {
    if (each != all[7]) intentions->end(each);
  }
  EXPECT_EQ(log_syncs.value(), syncs);
  loop_.advance(1100ms);
  EXPECT_EQ(log_syncs.value(), syncs + 1);
  EXPECT_EQ(metrics_.counter("coordinator_log_records_total").value(), 101u);
  disk_.crash(storage::MemoryDisk::Crash::kDropUnsynced);
  open();
  EXPECT_EQ(owed_sizes(), (std::vector<std::uint64_t>{7}));
}

TEST_F(IntentionsTest, ACleanStopLeavesNothingOwed) {
  auto intentions = open();
  LogSequence one = begin(*intentions, 1);
  ASSERT_TRUE(run(intentions->durable(one)));
  intentions->end(one);
  bool flushed = false;
  start_void(intentions->flush(), [&] { flushed = true; });
  loop_.run_until([&] { return flushed; });
  disk_.crash(storage::MemoryDisk::Crash::kDropUnsynced);
  open();
  EXPECT_TRUE(owed_.empty());
}

TEST_F(IntentionsTest, TheLogIsTrimmedAroundAnIntentionThatStaysOpen) {
  Intentions::Options options{
      .clear_delay = 100ms, .carry_forward_bytes = 64 << 10, .segment_bytes = 16 << 10};
  auto intentions = open(options);
  LogSequence stays = begin(*intentions, 4711);
  std::uint64_t largest = 0;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    LogSequence each = begin(*intentions, i);
    ASSERT_TRUE(run(intentions->durable(each)));
    intentions->end(each);
    if (i % 50 == 0) loop_.advance(110ms);
    largest = std::max(largest, disk_.used_bytes());
  }
  EXPECT_LT(largest, 256u << 10) << "the log grows without end";
  EXPECT_GT(metrics_.counter("coordinator_intentions_carried_total").value(), 0u);
  loop_.advance(1s);
  disk_.crash(storage::MemoryDisk::Crash::kDropUnsynced);
  auto again = open(options);
  EXPECT_EQ(owed_sizes(), (std::vector<std::uint64_t>{4711}));

  // Its operation still knows it by its first number.
  intentions = again;
  stays = owed_.front().first;
  intentions->end(stays);
  loop_.advance(1s);
  disk_.crash(storage::MemoryDisk::Crash::kDropUnsynced);
  open(options);
  EXPECT_TRUE(owed_.empty());
}

TEST_F(IntentionsTest, ACarriedIntentionEndsByItsFirstNumber) {
  Intentions::Options options{.clear_delay = 100ms, .carry_forward_bytes = 0, .segment_bytes = 16 << 10};
  auto intentions = open(options);
  LogSequence stays = begin(*intentions, 4711);
  for (int i = 0; i < 3; ++i) {  // carried again and again
    intentions->end(begin(*intentions, 1));
    loop_.advance(200ms);
  }
  EXPECT_GE(metrics_.counter("coordinator_intentions_carried_total").value(), 3u);
  EXPECT_EQ(intentions->open_count(), 1u);
  intentions->end(stays);
  EXPECT_EQ(intentions->open_count(), 0u);
  loop_.advance(200ms);
  disk_.crash(storage::MemoryDisk::Crash::kDropUnsynced);
  open(options);
  EXPECT_TRUE(owed_.empty());
}

}  // namespace
}  // namespace slice::coordinator
