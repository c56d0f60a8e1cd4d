// Balance: of the stripes of files with a layout, which go where, so that every storage server has its share
// of their bytes (docs/block-maps.md). Pure.
#ifndef SLICE_COORDINATOR_BALANCE_H
#define SLICE_COORDINATOR_BALANCE_H

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "coordinator/weighted_choice.h"
#include "routing/tables.h"
#include "wire/layout.h"

namespace slice::coordinator {

class Balance {
 public:
  using Servers = std::vector<std::uint32_t>;  // of one stripe's copies
  struct Stripe {
    Servers copies;
    std::uint64_t bytes = 0;  // of each; 0: nothing is gained by moving it
  };
  static constexpr double kStray = 0.05;  // of a share, by which a server may miss it

  // What servers that are not among `shares`, or have none, have is left alone.
  explicit Balance(const std::vector<wire::ServerShare>& shares);

  // First every stripe is counted once.
  void count(const Stripe& stripe);
  // Then this says what is to go. False: nothing, each has its share.
  bool plan();
  // Then each piece's stripes are given once more, and told which of them are to be elsewhere: a server that
  // lacks something gets its part of every piece, if that has less, from those that have too much. One copy
  // of a stripe goes at most, to a host and rack that are as good beside the others.
  using Moves = std::map<std::size_t, Servers>;  // by position: where the stripe is to be
  Moves moves_of(const std::vector<Stripe>& stripes, const routing::RoutingTables& tables,
                 const Random& random);
  // How many bytes are to go, and have not been told to.
  std::uint64_t left() const;

 private:
  struct Load {
    std::uint64_t weight = 0;
    std::uint64_t has = 0;               // bytes
    std::uint64_t gives = 0, takes = 0;  // likewise
    double part = 0;                     // of all bytes
    double due = 0;  // of the pieces so far, bytes that it lacks; below 0: that it has too much
  };
  // Which one gets a copy of so many bytes, where `left` bytes of the piece's stripes are left, of one copy
  // each; nothing: this stripe stays.
  std::optional<std::uint32_t> taker(std::uint64_t bytes, std::uint64_t left, const Random& random) const;
  // Where the stripe is when one of its copies has gone to `taker`.
  std::optional<Servers> with(std::uint32_t taker, const Stripe& stripe, const routing::RoutingTables& tables,
                              const Random& random) const;

  std::map<std::uint32_t, Load> loads_;  // by server
  std::uint64_t largest_ = 0;            // stripe, in bytes
};

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_BALANCE_H
