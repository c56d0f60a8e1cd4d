#include "tests/sim/shared_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tests/sim/byte_file.h"

namespace slice::sim {

void SharedFile::writing(std::size_t block, std::uint32_t number) {
  blocks_[block][number].start = ++instants_;
}

void SharedFile::written(std::size_t block, std::uint32_t number) {
  blocks_[block][number].end = ++instants_;
}

bool SharedFile::overwritten(const Writes& writes, std::optional<std::uint64_t> end, std::uint64_t since) {
  return end && std::any_of(writes.begin(), writes.end(), [&](const auto& each) {
           const Write& other = each.second;
           return other.start > *end && other.end && *other.end < since;
         });
}

std::string SharedFile::check(std::size_t block, std::uint64_t since, ByteView bytes) const {
  static const Writes kNone;
  auto found = blocks_.find(block);
  const Writes& writes = found == blocks_.end() ? kNone : found->second;
  std::set<std::uint32_t> shown;
  for (std::size_t at = 0; at + 4 <= bytes.size(); at += 4)
    shown.insert(load_be<std::uint32_t>(bytes.data() + at));
  if (bytes.size() < kBlock) shown.insert(0);  // as a hole
  for (std::uint32_t number : shown) {
    auto write = writes.find(number);
    if (number != 0 && write == writes.end()) return fmt::format("block {} shows {}", block, number);
    std::optional<std::uint64_t> end = number == 0 ? std::optional<std::uint64_t>(0) : write->second.end;
    if (overwritten(writes, end, since))
      return fmt::format("block {} shows {}, which was overwritten before the read began", block, number);
  }
  // A part of each of two: only where one of them was under way meanwhile.
  if (shown.size() < 2) return {};
  bool under_way = std::any_of(shown.begin(), shown.end(), [&](std::uint32_t number) {
    auto write = writes.find(number);
    return write != writes.end() && (!write->second.end || *write->second.end > since);
  });
  return under_way ? "" : fmt::format("block {} is mixed of {}", block, fmt::join(shown, ", "));
}

}  // namespace slice::sim
