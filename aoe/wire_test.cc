#include "aoe/wire.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace slice::aoe {
namespace {

std::vector<std::uint8_t> bytes_of(const Buffer& buffer) {
  return {buffer.view().begin(), buffer.view().end()};
}

std::uint16_t word(const Buffer& identity, std::size_t number) {
  return static_cast<std::uint16_t>(identity.data()[number * 2] | identity.data()[number * 2 + 1] << 8);
}

TEST(AoeWire, HasACommandAsTheSpecificationDoes) {
  const Head head{.place = {7, 1}, .command = 0, .tag = 0x01020304};
  const std::vector<std::uint8_t> data{0xaa, 0xbb};
  const Buffer frame = encode(head,
                              Ata{.extended = true,
                                  .write = true,
                                  .count = 1,
                                  .command = ata::kWriteExtended,
                                  .sector = 0x0605040302},
                              data);
  EXPECT_EQ(bytes_of(frame),
            (std::vector<std::uint8_t>{0x10, 0, 0, 7,    1, 0, 1, 2, 3, 4,  // the head
                                       0x41, 0, 1, 0x34, 2, 3, 4, 5, 6, 0, 0, 0, 0xaa, 0xbb}));
  const auto got = decode(frame.view());
  ASSERT_TRUE(got);
  EXPECT_EQ(got->head.place, (Place{7, 1}));
  EXPECT_EQ(got->head.tag, 0x01020304U);
  const auto ata = decode_ata(got->rest);
  ASSERT_TRUE(ata);
  EXPECT_TRUE(ata->ata.extended && ata->ata.write);
  EXPECT_EQ(ata->ata.sector, 0x0605040302U);
  EXPECT_EQ(ata->data.size(), 2U);
}

TEST(AoeWire, HasAddressesOf28BitsWhereNoMoreAreSaid) {
  const Buffer frame = encode(Head{}, Ata{.command = ata::kRead, .sector = 0xffffffffffff});
  EXPECT_EQ(decode_ata(decode(frame.view())->rest)->ata.sector, 0x0fffffffU);
}

TEST(AoeWire, SaysWhatFailed) {
  const Buffer frame = encode(Head{.answer = true, .failure = Failure::kArgument}, Ata{});
  EXPECT_EQ(frame.data()[0], 0x1c);
  EXPECT_EQ(frame.data()[1], 2);
}

TEST(AoeWire, AsksAndAnswersWhatThereIs) {
  const Buffer frame = encode(Head{.place = kEverywhere, .command = 1},
                              Config{.buffers = 128, .firmware = 1, .sectors = 2, .asks = 2, .text = "vm"});
  EXPECT_EQ(bytes_of(frame),
            (std::vector<std::uint8_t>{0x10, 0,   0xff, 0xff, 0xff, 1,    0, 0, 0,   0,  // the head
                                       0,    128, 0,    1,    2,    0x12, 0, 2, 'v', 'm'}));
  const auto got = decode_config(decode(frame.view())->rest);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->buffers, 128);
  EXPECT_EQ(got->asks, 2);
  EXPECT_EQ(got->text, "vm");
}

TEST(AoeWire, WhatIsCutOrLiesIsNone) {
  const Buffer whole = encode(Head{.command = 1}, Config{.text = "vm"});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto frame = decode(whole.view().first(size));
    EXPECT_EQ(frame.has_value(), size >= kHeadSize) << size;
    if (frame) EXPECT_FALSE(decode_config(frame->rest)) << size;
  }
  const Buffer command = encode(Head{}, Ata{});
  EXPECT_FALSE(decode_ata(decode(command.view().first(command.size() - 1))->rest));
  std::string longest(kMostText, 'x');
  const Buffer most = encode(Head{}, Config{.text = longest});
  EXPECT_TRUE(decode_config(decode(most.view())->rest));
  longest += 'x';
  const Buffer more = encode(Head{}, Config{.text = longest});
  EXPECT_FALSE(decode_config(decode(more.view())->rest));
}

TEST(AoeWire, APlaceMayStandForAll) {
  EXPECT_TRUE(is_for({7, 1}, {7, 1}));
  EXPECT_FALSE(is_for({7, 2}, {7, 1}));
  EXPECT_TRUE(is_for({7, 0xff}, {7, 1}));
  EXPECT_TRUE(is_for({0xffff, 1}, {7, 1}));
  EXPECT_TRUE(is_for(kEverywhere, {7, 1}));
  EXPECT_EQ(to_string({7, 1}), "7.1");
  EXPECT_EQ(*parse_place("65534.254"), (Place{65534, 254}));
  for (const char* const wrong : {"", "7", "7.", ".1", "7.1.1", "65535.1", "7.255", "-1.2", "a.b", "7.1 "})
    EXPECT_FALSE(parse_place(wrong)) << wrong;
}

TEST(AoeWire, TellsWhatADiskIs) {
  const std::uint64_t sectors = 0x123456789;
  const Buffer told = identity(sectors, "Slice raw volume", "vm1");
  ASSERT_EQ(told.size(), kSector);
  EXPECT_EQ(word(told, 60) | word(told, 61) << 16, 0x0fffffff);  // as much as 28 bits can say
  EXPECT_EQ(word(told, 100) | std::uint64_t{word(told, 101)} << 16 | std::uint64_t{word(told, 102)} << 32,
            sectors);
  EXPECT_EQ(word(told, 83) & 1 << 10, 1 << 10);  // 48 bits
  EXPECT_EQ(word(told, 82) & 1 << 5, 0);         // no write cache
  EXPECT_EQ(word(told, 10), 'v' << 8 | 'm');
  EXPECT_EQ(word(told, 27), 'S' << 8 | 'l');
}

}  // namespace
}  // namespace slice::aoe
