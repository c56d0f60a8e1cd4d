#include "storagenode/stripe_order.h"

#include <algorithm>

namespace slice::storagenode {
namespace {

constexpr std::size_t kMaxNumbers = 65536;  // stripes whose last forwarded write is remembered

}  // namespace

std::uint64_t WriteNumbers::next(WallTime now) {
  last_ = std::max(last_ + 1, static_cast<std::uint64_t>(now.ns));
  return last_;
}

void WriteNumbers::see(std::uint64_t number) {
  last_ = std::max(last_, number);
}

std::uint64_t WriteNumbers::greatest(StripeName stripe) const {
  auto found = taken_.find(stripe);
  return found == taken_.end() ? forgotten_ : found->second;
}

bool WriteNumbers::take(StripeName stripe, std::uint64_t number) {
  if (number <= greatest(stripe)) return false;
  if (taken_.size() >= kMaxNumbers) {
    for (const auto& [of, greatest] : taken_) forgotten_ = std::max(forgotten_, greatest);
    taken_.clear();
    if (number <= forgotten_) return false;
  }
  taken_[stripe] = number;
  return true;
}

}  // namespace slice::storagenode
