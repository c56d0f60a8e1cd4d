#include "common/crc32c.h"

#include <gtest/gtest.h>

#include <vector>

namespace slice {
namespace {

// RFC 3720 appendix B.4.
TEST(Crc32c, StandardVectors) {
  std::vector<std::uint8_t> bytes(32, 0);
  EXPECT_EQ(crc32c(bytes), 0x8a9136aau);
  bytes.assign(32, 0xff);
  EXPECT_EQ(crc32c(bytes), 0x62a8ab43u);
  for (std::size_t i = 0; i < 32; ++i) bytes[i] = static_cast<std::uint8_t>(i);
  EXPECT_EQ(crc32c(bytes), 0x46dd794eu);
  EXPECT_EQ(crc32c(as_bytes("123456789")), 0xe3069283u);
}

TEST(Crc32c, ExtendsPieceByPiece) {
  EXPECT_EQ(crc32c(as_bytes("56789"), crc32c(as_bytes("1234"))), 0xe3069283u);
}

TEST(Crc32c, EachBlockAsByItself) {
  for (std::size_t blocks = 0; blocks < 11; ++blocks) {
    std::vector<std::uint8_t> bytes(blocks * 512);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 31 + i / 512);
    std::vector<std::uint32_t> each(blocks);
    crc32c_each(bytes, 512, each.data());
    for (std::size_t i = 0; i < blocks; ++i) {
      EXPECT_EQ(each[i], crc32c(ByteView(bytes).subspan(i * 512, 512)));
    }
  }
}

}  // namespace
}  // namespace slice
