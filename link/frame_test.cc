#include "link/frame.h"

#include <gtest/gtest.h>

#include "link/pace.h"

namespace slice::link {
namespace {

using namespace std::chrono_literals;

constexpr Key kKey{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

Head some_head() {
  return {.op = Op::kWrite,
          .flags = flag::kWack | flag::kDurable,
          .code = Code::kNoSpace,
          .credit = 0x1234,
          .tag = 0x5678,
          .fragment = 254,
          .session = 0x1122334455667788,
          .offset = 0x99aabbccddeeff00,
          .count = 0x12345678,
          .generation = 0xfedcba98};
}

TEST(LinkFrame, GoesRound) {
  for (const std::size_t size : {0U, 1U, 512U, 1024U, 32768U}) {
    Buffer data(size);
    for (std::size_t i = 0; i < size; ++i) data.data()[i] = static_cast<std::uint8_t>(i * 7);
    const Buffer frame = sealed(kKey, some_head(), data.view());
    ASSERT_EQ(frame.size(), kHeadSize + size);
    const auto back = decode(frame.view());
    ASSERT_TRUE(back);
    EXPECT_EQ(back->head, some_head());
    EXPECT_TRUE(std::ranges::equal(back->data, data.view()));
    EXPECT_TRUE(authentic(kKey, frame.view()));
  }
}

TEST(LinkFrame, IsAsTheDocumentHasIt) {
  const Buffer frame = sealed(kKey, some_head(), as_bytes("ab"));
  EXPECT_EQ(to_hex(frame.view().first(kHeadSize - kMacSize)),
            "534c4b31"
            "07050400"
            "00021234"
            "567800fe"
            "1122334455667788"
            "99aabbccddeeff00"
            "12345678"
            "fedcba98");
}

TEST(LinkFrame, OfAnotherLengthIsNone) {
  const Buffer frame = sealed(kKey, some_head(), as_bytes("abcdefgh"));
  for (std::size_t size = 0; size < frame.size(); ++size)
    EXPECT_FALSE(decode(frame.view().first(size))) << size;
  Buffer longer = frame.clone();
  longer.append(as_bytes("x"));
  EXPECT_FALSE(decode(longer.view()));
}

TEST(LinkFrame, OfWhatThereIsNotIsNone) {
  const auto changed = [](std::size_t at, std::uint8_t to) {
    Buffer frame = sealed(kKey, some_head());
    frame.data()[at] = to;
    return decode(frame.view()).has_value();
  };
  EXPECT_TRUE(changed(4, 1));
  EXPECT_FALSE(changed(0, 0));  // magic
  EXPECT_FALSE(changed(4, 0));  // op
  EXPECT_FALSE(changed(4, static_cast<std::uint8_t>(Op::kKinds)));
  EXPECT_FALSE(changed(5, 16));  // flags
  EXPECT_FALSE(changed(6, static_cast<std::uint8_t>(Code::kKinds)));
  EXPECT_FALSE(changed(7, 1));
  EXPECT_FALSE(changed(9, 1));  // length
}

TEST(LinkFrame, EveryByteIsUnderTheMac) {
  const Buffer frame = sealed(kKey, some_head(), as_bytes("abcdefgh"));
  for (std::size_t at = 0; at < frame.size(); ++at) {
    Buffer changed = frame.clone();
    changed.data()[at] ^= 0x10;
    EXPECT_FALSE(authentic(kKey, changed.view())) << at;
  }
  EXPECT_FALSE(authentic(Key{}, frame.view()));
}

TEST(LinkFrame, KeysDifferByAllThatTheyAreMadeOf) {
  const Nonce one{1}, two{2};
  const Keys keys = session_keys(kKey, one, two, 3);
  EXPECT_NE(keys.to_target, keys.to_initiator);
  for (const Keys& other :
       {session_keys(Key{}, one, two, 3), session_keys(kKey, two, two, 3), session_keys(kKey, one, one, 3),
        session_keys(kKey, one, two, 4), handshake_keys(kKey)}) {
    EXPECT_NE(keys.to_target, other.to_target);
    EXPECT_NE(keys.to_initiator, other.to_initiator);
  }
}

template <class Decode>
void takes_nothing_else(const Buffer& good, Decode decode_it) {
  EXPECT_TRUE(decode_it(good.view()));
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(decode_it(good.view().first(size))) << size;
  Buffer longer = good.clone();
  longer.append(as_bytes("x"));
  EXPECT_FALSE(decode_it(longer.view()));
}

TEST(LinkFrame, HandshakesGoRound) {
  const Ticket ticket{.time = 77, .mac = {4, 5}};
  const Handshake handshake{
      .nonce = {1}, .ticket = ticket, .block = 1024, .client = "host", .volume = "disk1"};
  const auto back = decode_handshake(encode(handshake).view());
  ASSERT_TRUE(back);
  EXPECT_EQ(back->nonce, handshake.nonce);
  EXPECT_EQ(back->ticket, ticket);
  EXPECT_EQ(back->block, 1024U);
  EXPECT_EQ(back->client, "host");
  EXPECT_EQ(back->volume, "disk1");
  takes_nothing_else(encode(handshake), decode_handshake);
  takes_nothing_else(encode(TicketAnswer{{1}, ticket}), decode_ticket_answer);
  takes_nothing_else(encode(Nonce{1}), decode_nonce);
  takes_nothing_else(encode(BlockMap(5)), decode_block_map);
  const Welcome welcome{.size = 9, .largest = 4096, .block = 1024, .instance = 5, .opening = 6, .tags = 7};
  takes_nothing_else(encode(welcome), decode_welcome);
  EXPECT_EQ(decode_welcome(encode(welcome).view())->opening, 6U);
}

TEST(LinkFrame, BlocksArePowersOfTwo) {
  const auto takes = [](std::uint32_t block) {
    const Handshake handshake{.block = block, .client = "a", .volume = "b"};
    return decode_handshake(encode(handshake).view()).has_value();
  };
  for (const std::uint32_t good : {512U, 1024U, 32768U}) EXPECT_TRUE(takes(good));
  for (const std::uint32_t bad : {0U, 256U, 513U, 3072U, 65536U, 0x80000000U}) EXPECT_FALSE(takes(bad));
}

TEST(LinkFrame, LengthsOfBlocks) {
  EXPECT_EQ(blocks_of(1, 1024), 1U);
  EXPECT_EQ(blocks_of(1025, 1024), 2U);
  EXPECT_EQ(length_of(0, 1025, 1024), 1024U);
  EXPECT_EQ(length_of(1, 1025, 1024), 1U);
}

TEST(LinkPace, FollowsTheLatencyWithinBounds) {
  Pace pace;
  pace.begin(1000, 10);
  for (int i = 0; i < 50; ++i) pace.answered(100us);
  EXPECT_EQ(pace.unheard(0), 10ms);
  EXPECT_EQ(pace.heard(0), 100ms);
  for (int i = 0; i < 50; ++i) pace.answered(50ms);
  EXPECT_NEAR(static_cast<double>(pace.unheard(0).count()), 200e6, 1e6);
  for (int i = 0; i < 50; ++i) pace.answered(100s);
  EXPECT_EQ(pace.unheard(9), 2s);
}

TEST(LinkPace, WaitsLongerTheLessCreditThereIs) {
  Pace pace;
  pace.begin(1000, 10);
  const Duration before = pace.unheard(0);
  pace.credit(250);
  EXPECT_EQ(pace.unheard(0), 4 * before);
}

TEST(LinkPace, HalvesItsWindowOnceALatency) {
  Pace pace;
  pace.begin(1000, 10);
  pace.lost(MonoTime(1s));
  pace.lost(MonoTime(1s));
  EXPECT_EQ(pace.window(), 500U);
  for (int i = 2; i < 20; ++i) pace.lost(MonoTime(i * 10s));
  EXPECT_EQ(pace.window(), 10U);
  for (int i = 0; i < 100; ++i) pace.grow(64);
  EXPECT_EQ(pace.window(), 1000U);
}

}  // namespace
}  // namespace slice::link
