// MD5 and SipHash against the RFC's and the reference's vectors and OpenSSL.
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <array>
#include <numeric>
#include <string>
#include <vector>

#include "bpf/shared/md5.h"
#include "bpf/shared/routing.h"
#include "bpf/shared/siphash.h"

namespace {

// RFC 1321 appendix A.5, through the block function and the padding of one name
// memory; messages of fewer than 8 bytes do not occur as (fileID, name).
uint64_t md5_of(std::string_view message) {
  slice_name_words words{};
  std::copy(message.begin(), message.end(), reinterpret_cast<char*>(words.words));
  words.length = static_cast<uint32_t>(message.size());
  return slice_md5_name(&words);
}

TEST(Md5, Rfc1321Vectors) {
  EXPECT_EQ(md5_of(""), 0xd41d8cd98f00b204u);
  EXPECT_EQ(md5_of("a"), 0x0cc175b9c0f1b6a8u);
  EXPECT_EQ(md5_of("abc"), 0x900150983cd24fb0u);
  EXPECT_EQ(md5_of("message digest"), 0xf96b697d7cb7938du);
  EXPECT_EQ(md5_of("abcdefghijklmnopqrstuvwxyz"), 0xc3fcd3d76192e400u);
  EXPECT_EQ(md5_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"), 0xd174ab98d277d9f5u);
  EXPECT_EQ(md5_of("12345678901234567890123456789012345678901234567890123456789012345678901234567890"),
            0x57edf4a22be3c955u);
}

class NameHash : public testing::TestWithParam<uint32_t> {
 protected:
  NameHash() : input_(8 + GetParam()) {
    slice_put_be64(input_.data(), kParent);
    for (size_t i = 8; i < input_.size(); i++) input_[i] = static_cast<uint8_t>(i * 37 + GetParam());
    std::iota(std::begin(config_.name_key), std::end(config_.name_key), uint8_t{0});
  }

  uint64_t hash(uint32_t kind) {
    config_.name_hash = kind;
    slice_name_words memory;
    memset(&memory, 0xee, sizeof memory);  // whatever an earlier name left
    return slice_name_hash(&config_, &memory, kParent, input_.data() + 8, GetParam(),
                           input_.data() + input_.size());
  }

  static constexpr uint64_t kParent = 0x0102030405060708;
  std::vector<uint8_t> input_;
  slice_config config_{};
};

TEST_P(NameHash, Md5IsOpenSsl) {
  std::array<uint8_t, 16> digest{};
  ASSERT_EQ(EVP_Digest(input_.data(), input_.size(), digest.data(), nullptr, EVP_md5(), nullptr), 1);
  EXPECT_EQ(hash(SLICE_NAME_HASH_MD5), slice_be64(digest.data()));
}

TEST_P(NameHash, Siphash13IsThatOfMemory) {
  EXPECT_EQ(hash(SLICE_NAME_HASH_SIPHASH13),
            slice_siphash_64(config_.name_key, input_.data(), input_.size(), 1, 3));
}

INSTANTIATE_TEST_SUITE_P(EveryLength, NameHash, testing::Range(1u, 256u));

// vectors.h of the reference implementation: key 00..0f, input 00..len-1.
TEST(SipHash, ReferenceVectors) {
  std::array<uint8_t, 16> key{};
  std::array<uint8_t, 64> input{};
  std::iota(key.begin(), key.end(), uint8_t{0});
  std::iota(input.begin(), input.end(), uint8_t{0});
  EXPECT_EQ(slice_siphash_64(key.data(), input.data(), 0, 2, 4), 0x726fdb47dd0e0e31u);
  EXPECT_EQ(slice_siphash_64(key.data(), input.data(), 1, 2, 4), 0x74f839c593dc67fdu);
  EXPECT_EQ(slice_siphash_64(key.data(), input.data(), 15, 2, 4), 0xa129ca6149be45e5u);
  const std::array<uint8_t, 16> empty{0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6,
                                      0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93};
  const std::array<uint8_t, 16> one{0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44,
                                    0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45};
  std::array<uint8_t, 16> out{};
  slice_siphash_128(key.data(), input.data(), 0, out.data());
  EXPECT_EQ(out, empty);
  slice_siphash_128(key.data(), input.data(), 1, out.data());
  EXPECT_EQ(out, one);
}

// OpenSSL's SipHash, 16 bytes of output, for the length that handles have.
TEST(SipHash, HandleMacIsOpenSsl) {
  std::vector<uint8_t> key(16), input(32), out(16);
  std::iota(key.begin(), key.end(), uint8_t{100});
  std::iota(input.begin(), input.end(), uint8_t{9});
  EVP_PKEY* pkey = EVP_PKEY_new_raw_private_key(EVP_PKEY_SIPHASH, nullptr, key.data(), key.size());
  ASSERT_NE(pkey, nullptr);
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  size_t length = out.size();
  ASSERT_EQ(EVP_DigestSignInit(context, nullptr, nullptr, nullptr, pkey), 1);
  ASSERT_EQ(EVP_DigestSignUpdate(context, input.data(), input.size()), 1);
  ASSERT_EQ(EVP_DigestSignFinal(context, out.data(), &length), 1);
  EVP_MD_CTX_free(context);
  EVP_PKEY_free(pkey);
  std::vector<uint8_t> ours(16);
  slice_siphash_128(key.data(), input.data(), input.size(), ours.data());
  EXPECT_EQ(ours, out);
}

}  // namespace
