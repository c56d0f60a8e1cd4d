#include "routing/file_handle.h"

#include <gtest/gtest.h>

namespace slice::routing {
namespace {

std::array<std::uint8_t, 16> counting_key() {
  std::array<std::uint8_t, 16> key{};
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::uint8_t>(i);
  return key;
}

FileHandle sample() {
  FileHandle handle;
  handle.type = nfs3::FileType::kDirectory;
  handle.flags = 2;
  handle.stripe_shift = 20;
  handle.fileid = FileId{0x0003000000000007};
  handle.directory_site = SiteId{3};
  handle.generation = 9;
  handle.cell_key = 0x1122334455667788;
  return handle;
}

TEST(HandleCodec, OpensWhatItMinted) {
  HandleCodec codec(VolumeId{5}, counting_key());
  HandleBytes bytes = codec.mint(sample());
  auto opened = codec.open(bytes);
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->type, nfs3::FileType::kDirectory);
  EXPECT_EQ(opened->flags, 2);
  EXPECT_EQ(opened->stripe_shift, 20);
  EXPECT_EQ(opened->fileid, FileId{0x0003000000000007});
  EXPECT_EQ(opened->directory_site, SiteId{3});
  EXPECT_EQ(opened->generation, 9u);
  EXPECT_EQ(opened->cell_key, 0x1122334455667788u);
  EXPECT_FALSE(opened->hint.can_patch);
  EXPECT_FALSE(opened->hint.size);
}

// The layout of docs/formats/file-handle.md, byte by byte.
TEST(HandleCodec, LaysBytesOutAsSpecified) {
  HandleBytes bytes = HandleCodec(VolumeId{5}, counting_key()).mint(sample());
  EXPECT_EQ(to_hex(ByteView(bytes).first(40)),
            "01020214"
            "00000005"
            "0003000000000007"
            "00000003"
            "00000009"
            "1122334455667788"
            "0000000000000000");
}

TEST(HandleCodec, AnOpenersHandleSaysForWhichEpochItIsGood) {
  const FileHandle file{.flags = 2, .fileid = FileId{5}, .cell_key = 0x1234567890};
  EXPECT_EQ(epoch_of_opener(file), std::nullopt);
  const HandleCodec codec(VolumeId{7}, {});
  const auto opened = codec.open(codec.mint(opened_at(file, Epoch{9})));
  ASSERT_TRUE(opened);
  EXPECT_EQ(epoch_of_opener(*opened), Epoch{9});
  EXPECT_EQ(opened->flags & 2, 2);
  EXPECT_EQ(epoch_of_opener(as_files(*opened)), std::nullopt);
  EXPECT_EQ(as_files(file).cell_key, file.cell_key);
}

TEST(HandleCodec, TheRootIsFileOneAtSiteZero) {
  VolumeConfig volume;
  volume.stripe_shift = 17;
  HandleBytes bytes = HandleCodec(VolumeId{5}, counting_key()).mint(root_handle(volume));
  EXPECT_EQ(to_hex(ByteView(bytes).first(40)),
            "01020011"
            "00000005"
            "0000000000000001"
            "00000000"
            "00000000"
            "0000000000000000"
            "0000000000000000");
}

TEST(HandleCodec, NeverMintsAHint) {
  FileHandle handle = sample();
  handle.hint = {.can_patch = true, .size = 7};
  HandleCodec codec(VolumeId{5}, counting_key());
  EXPECT_EQ(codec.mint(handle), codec.mint(sample()));
}

TEST(HandleCodec, ReadsTheHintThatAProxyStamped) {
  HandleCodec codec(VolumeId{5}, counting_key());
  HandleBytes bytes = codec.mint(sample());
  store_be<std::uint64_t>(bytes.data() + 32, (1ull << 63) | (1ull << 62) | 4096);
  auto opened = codec.open(bytes);
  ASSERT_TRUE(opened) << "the hint is outside the MAC";
  EXPECT_TRUE(opened->hint.can_patch);
  EXPECT_EQ(opened->hint.size, 4096u);
  store_be<std::uint64_t>(bytes.data() + 32, 1ull << 63);
  EXPECT_FALSE(codec.open(bytes)->hint.size);
}

TEST(HandleCodec, RefusesEveryChangedByteButTheHint) {
  HandleCodec codec(VolumeId{5}, counting_key());
  HandleBytes good = codec.mint(sample());
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (std::uint8_t flip : {std::uint8_t{1}, std::uint8_t{0x80}}) {
      HandleBytes bytes = good;
      bytes[at] ^= flip;
      EXPECT_EQ(codec.open(bytes).has_value(), at >= 32 && at < 40) << "byte " << at;
    }
  }
}

TEST(HandleCodec, RefusesOtherLengthsVolumesAndKeys) {
  HandleCodec codec(VolumeId{5}, counting_key());
  HandleBytes bytes = codec.mint(sample());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(codec.open(ByteView(bytes).first(length)));
  }
  std::array<std::uint8_t, 64> longer{};
  std::copy(bytes.begin(), bytes.end(), longer.begin());
  EXPECT_FALSE(codec.open(longer));
  EXPECT_FALSE(HandleCodec(VolumeId{6}, counting_key()).open(bytes));
  EXPECT_FALSE(HandleCodec(VolumeId{5}, {}).open(bytes));
  EXPECT_EQ(codec.open(ByteView{}).error().code, Errc::kInvalid);
}

// A right MAC over fields that no directory server writes.
TEST(HandleCodec, RefusesNonsenseEvenWithARightMac) {
  HandleCodec codec(VolumeId{5}, counting_key());
  FileHandle handle = sample();
  handle.stripe_shift = 63;
  EXPECT_FALSE(codec.open(codec.mint(handle)));
  handle = sample();
  handle.type = static_cast<nfs3::FileType>(8);
  EXPECT_FALSE(codec.open(codec.mint(handle)));
  handle = sample();
  handle.fileid = FileId{0};
  EXPECT_FALSE(codec.open(codec.mint(handle)));
}

}  // namespace
}  // namespace slice::routing
