// weighted_choice: one of several at random, each as likely as its weight says. Pure.
#ifndef SLICE_COORDINATOR_WEIGHTED_CHOICE_H
#define SLICE_COORDINATOR_WEIGHTED_CHOICE_H

#include <cstdint>
#include <functional>
#include <vector>

namespace slice::coordinator {

using Random = std::function<std::uint64_t()>;  // 64 random bits

// Of one item at least; all alike where all weights are 0.
template <class Item, class WeightOf>
const Item& weighted_choice(const std::vector<Item>& items, const WeightOf& weight_of, const Random& random) {
  std::uint64_t total = 0;
  for (const Item& each : items) total += weight_of(each);
  if (total == 0) return items[random() % items.size()];
  std::uint64_t roll = random() % total;
  for (const Item& each : items) {
    const std::uint64_t weight = weight_of(each);
    if (roll < weight) return each;
    roll -= weight;
  }
  return items.back();
}

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_WEIGHTED_CHOICE_H
