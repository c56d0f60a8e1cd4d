#include "smallfile/map_record.h"

#include <gtest/gtest.h>

#include "common/crc32c.h"

namespace slice::smallfile {
namespace {

constexpr std::uint64_t kThreshold = 65536;

MapRecord sample() {
  return {.epoch = {7},
          .mtime = {1700000000, 999999999},
          .end = 8300,
          .applied = 123456789012,
          .extents = {{0, {.place = 128, .stored = 8192, .valid = 8192, .checksum = 0xdeadbeef}},
                      {1, {.place = std::uint64_t{1} << 40, .stored = 108, .valid = 100, .checksum = 1}}}};
}

// `bytes` with a checksum that fits again.
std::string resealed(std::string bytes) {
  std::uint32_t crc = crc32c(as_bytes(std::string_view(bytes).substr(0, bytes.size() - 4)));
  store_be(reinterpret_cast<std::uint8_t*>(bytes.data()) + bytes.size() - 4, crc);
  return bytes;
}

TEST(MapRecord, ComesBackAsItWas) {
  EXPECT_EQ(*decode_map_record(encode(sample()), kThreshold), sample());
  EXPECT_EQ(*decode_map_record(encode(MapRecord{}), kThreshold), MapRecord{});
  EXPECT_EQ(encode(sample()).size(), 40 + 2 * 20 + 4u);
}

TEST(MapRecord, AnyFlippedBitAndAnyCutIsCorrupt) {
  std::string bytes = encode(sample());
  for (std::size_t i = 0; i < bytes.size() * 8; ++i) {
    std::string bad = bytes;
    bad[i / 8] = static_cast<char>(bad[i / 8] ^ (1 << i % 8));
    auto result = decode_map_record(bad, kThreshold);
    ASSERT_FALSE(result) << "bit " << i;
    EXPECT_EQ(result.error().code, Errc::kCorrupt);
  }
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_map_record(std::string_view(bytes).substr(0, size), kThreshold));
  }
}

TEST(MapRecord, NumbersThatCannotBeAreRefusedEvenWithAGoodChecksum) {
  auto refused = [](auto change) {
    MapRecord record = sample();
    change(record);
    return !decode_map_record(encode(record), kThreshold);
  };
  EXPECT_TRUE(refused([](MapRecord& r) { r.end = kThreshold + 1; }));
  EXPECT_TRUE(refused([](MapRecord& r) { r.extents[1].block = 8; }));
  EXPECT_TRUE(refused([](MapRecord& r) { r.extents[1].block = 0; }));
  EXPECT_TRUE(refused([](MapRecord& r) { r.extents[0].extent.stored = 8193; }));
  EXPECT_TRUE(refused([](MapRecord& r) { r.extents[0].extent.stored = 0; }));
  EXPECT_TRUE(refused([](MapRecord& r) { r.extents[1].extent.valid = 109; }));
  EXPECT_TRUE(refused([](MapRecord& r) { r.extents[1].extent.valid = 0; }));
  EXPECT_TRUE(refused([](MapRecord& r) { r.extents[1].extent.place = 64; }));
  EXPECT_TRUE(refused([](MapRecord& r) { r.extents[1].extent.place = kMaxZone; }));
  std::string wrong_count = encode(sample());
  wrong_count[7] = 3;
  EXPECT_FALSE(decode_map_record(resealed(wrong_count), kThreshold));
  std::string wrong_version = encode(sample());
  wrong_version[0] = 2;
  EXPECT_FALSE(decode_map_record(resealed(wrong_version), kThreshold));
}

TEST(StoreHeader, ComesBackAndRefusesDamage) {
  StoreHeader header{.threshold = 131072, .sites = 64};
  std::string bytes = encode(header);
  EXPECT_EQ(*decode_store_header(bytes), header);
  bytes[3] ^= 1;
  EXPECT_FALSE(decode_store_header(bytes));
}

TEST(Keys, KeepASiteTogetherAndComeBack) {
  std::string map = key_of({5}, KeyKind::kMap, 0x1234567890abcdef);
  auto key = parse_key(map);
  ASSERT_TRUE(key);
  EXPECT_EQ(key->site, SiteId{5});
  EXPECT_EQ(key->kind, KeyKind::kMap);
  EXPECT_EQ(key->number, 0x1234567890abcdefu);
  EXPECT_LT(key_of({5}, KeyKind::kZoneEnd, ~0ull), key_of({6}, KeyKind::kFragment, 0));
  EXPECT_LT(header_key(), key_of({0}, KeyKind::kFragment, 0));
  EXPECT_FALSE(parse_key(header_key()));
  EXPECT_FALSE(parse_key(map.substr(1)));
  EXPECT_EQ(*decode_length(encode_length(12345)), 12345u);
  EXPECT_FALSE(decode_length("123456789abcd"));
}

}  // namespace
}  // namespace slice::smallfile
