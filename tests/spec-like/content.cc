#include "tests/spec-like/content.h"

#include "tests/sim/random.h"

namespace slice::load {
namespace {

class Words {
 public:
  explicit Words(Content content) : seed_(sim::mix(content.key ^ (std::uint64_t{content.version} << 40))) {}
  // The eight bytes at 8 * index.
  std::uint64_t at(std::uint64_t index) const {
    std::uint64_t x = (seed_ + index) * 0x9e3779b97f4a7c15;
    return x ^ (x >> 29);
  }
  std::uint8_t byte(std::uint64_t offset) const {
    return static_cast<std::uint8_t>(at(offset / 8) >> (8 * (offset % 8)));
  }

 private:
  std::uint64_t seed_;
};

std::size_t bytes_to_word(std::uint64_t offset, std::size_t size) {
  return std::min<std::size_t>(static_cast<std::size_t>(-offset % 8), size);
}

}  // namespace

void fill(Content content, std::uint64_t offset, ByteSpan out) {
  const Words words(content);
  std::size_t i = 0;
  for (const std::size_t head = bytes_to_word(offset, out.size()); i < head; ++i)
    out[i] = words.byte(offset + i);
  for (; i + 8 <= out.size(); i += 8) {
    const std::uint64_t word = words.at((offset + i) / 8);
    std::memcpy(out.data() + i, &word, 8);
  }
  for (; i < out.size(); ++i) out[i] = words.byte(offset + i);
}

std::optional<std::size_t> first_difference(Content content, std::uint64_t offset, ByteView got) {
  const Words words(content);
  for (std::size_t i = 0; i < got.size();) {
    if ((offset + i) % 8 == 0 && i + 8 <= got.size()) {
      std::uint64_t word = 0;
      std::memcpy(&word, got.data() + i, 8);
      if (word == words.at((offset + i) / 8)) {
        i += 8;
        continue;
      }
    }
    if (got[i] != words.byte(offset + i)) return i;
    ++i;
  }
  return std::nullopt;
}

}  // namespace slice::load
