// A READ or WRITE split into pieces: each lies on one site.
#ifndef SLICE_PROXY_CALLS_SPLIT_H
#define SLICE_PROXY_CALLS_SPLIT_H

#include <memory>
#include <vector>

#include "proxy/calls/call.h"

namespace slice::proxy {

struct Piece {
  explicit Piece(LegOwner& owner) : leg(owner) {}
  std::uint64_t offset = 0;
  std::uint32_t count = 0;
  slice_route route{};
  Leg leg;
  bool done = false;
};
// Splits [offset, offset + count) at every boundary, by the routing core, and by the block map of a file that
// has one.
std::vector<std::unique_ptr<Piece>> split_into_pieces(Services& services, const CallFacts& facts,
                                                      LegOwner& owner);

// What those that are not done wait for, for the log; of many the first.
std::string unfinished(const std::vector<std::unique_ptr<Piece>>& pieces);

}  // namespace slice::proxy

#endif  // SLICE_PROXY_CALLS_SPLIT_H
