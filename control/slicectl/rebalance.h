// Which sites have to move so that every server of a class has its share: `slicectl rebalance` and `server
// drain` (docs/moves.md). A pure function.
#ifndef SLICE_CONTROL_SLICECTL_REBALANCE_H
#define SLICE_CONTROL_SLICECTL_REBALANCE_H

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "common/result.h"

namespace slice::slicectl {

// A server's part of the sites is its weight's part of all weights; 0: it is to have none.
struct Share {
  std::uint32_t server = 0;
  std::uint64_t weight = 0;
};

// Sites that go from one server to another, in order.
struct SitesToMove {
  std::uint32_t from = 0, to = 0;
  std::vector<std::uint32_t> sites;
};

// The fewest moves: a server gives only what it has too much, and gets only what it lacks. `owners`: by site.
// A server that `shares` does not name keeps what it has, and gets nothing. kInvalid: nobody has a weight.
Result<std::vector<SitesToMove>> plan_rebalance(const std::vector<std::uint32_t>& owners,
                                                const std::vector<Share>& shares);

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_REBALANCE_H
