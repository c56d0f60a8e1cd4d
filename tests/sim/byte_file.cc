#include "tests/sim/byte_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace slice::sim {

std::string block_of(std::uint32_t number) {
  std::string bytes(kBlock, '\0');
  for (std::size_t at = 0; at < kBlock; at += sizeof number) {
    store_be(reinterpret_cast<std::uint8_t*>(bytes.data()) + at, number);
  }
  return bytes;
}

void ByteFile::written(std::size_t block, bool durable, Verifier verifier, unsigned deaths) {
  Block& of = blocks_[block];
  of.acknowledged = of.numbers.size() - 1;
  of.deaths = deaths;
  if (durable) {
    of.oldest = of.numbers.size() - 1;
    of.unstable = false;
    return;
  }
  of.mixed = of.unstable && (of.mixed || of.verifier != verifier);
  of.unstable = true;
  of.verifier = verifier;
}

void ByteFile::truncating(std::uint64_t size) {
  for (std::size_t block = 0; block < kBlocks; ++block) {
    if (offset_of(block) >= size) blocks_[block].numbers.push_back(0);
  }
}

void ByteFile::truncated(std::uint64_t size) {
  for (std::size_t block = 0; block < kBlocks; ++block) {
    if (offset_of(block) < size) continue;
    blocks_[block].oldest = blocks_[block].acknowledged = blocks_[block].numbers.size() - 1;
    blocks_[block].unstable = false;
  }
}

std::vector<std::size_t> ByteFile::committed(Verifier verifier) {
  std::vector<std::size_t> again;
  for (std::size_t block = 0; block < kBlocks; ++block) {
    Block& of = blocks_[block];
    if (!of.unstable) continue;
    if (of.mixed || of.verifier != verifier) {
      again.push_back(block);
    } else {
      of.oldest = of.numbers.size() - 1;
    }
    of.unstable = of.mixed = false;
  }
  return again;
}

ByteFile::Look ByteFile::look(unsigned deaths) const {
  Look look{.deaths = deaths};
  for (const Block& of : blocks_) {
    look.durable.push_back(of.oldest);
    look.acknowledged.push_back(of.deaths == deaths ? std::max(of.oldest, of.acknowledged) : of.oldest);
  }
  return look;
}

std::set<std::uint32_t> ByteFile::possible(std::size_t block, std::size_t since) const {
  const std::vector<std::uint32_t>& numbers = blocks_[block].numbers;
  return {numbers.begin() + static_cast<std::ptrdiff_t>(since), numbers.end()};
}

std::string ByteFile::check(std::size_t block, const Look& look, unsigned deaths, ByteView bytes) const {
  const std::set<std::uint32_t> might = possible(block, since(block, look, deaths));
  std::set<std::uint32_t> shown;
  for (std::size_t at = 0; at + 4 <= bytes.size(); at += 4)
    shown.insert(load_be<std::uint32_t>(bytes.data() + at));
  // Several are possible where a write is under way, which a read may see in part, and where a crash took an
  // unstable one, which it may have taken in part.
  bool good = std::includes(might.begin(), might.end(), shown.begin(), shown.end());
  bool whole = bytes.size() == kBlock || might.contains(0);
  if (good && whole) return {};
  return fmt::format("block {} shows {} bytes of {}; possible: {}", block, bytes.size(),
                     fmt::join(shown, ", "), fmt::join(might, ", "));
}

std::string ByteFile::check_size(const Look& look, unsigned deaths, bool complete, std::uint64_t size) const {
  for (std::size_t block = kBlocks; block-- > 0;) {
    std::size_t from = complete ? since(block, look, deaths) : look.durable[block];
    if (possible(block, from).contains(0) || size >= offset_of(block) + kBlock) continue;
    return fmt::format("the size is {}, but block {} is {}", size, block,
                       fmt::join(possible(block, from), " or "));
  }
  return {};
}

}  // namespace slice::sim
