// StripeMover: an operator who moves stripes of block-mapped files to other storage sites while clients use
// them, and who reads block maps.
#ifndef SLICE_TESTS_SIM_STRIPE_MOVER_H
#define SLICE_TESTS_SIM_STRIPE_MOVER_H

#include "tests/sim/ensemble.h"
#include "wire/layout.h"

namespace slice::sim {

class StripeMover {
 public:
  explicit StripeMover(SimEnsemble& ensemble);

  // One stripe below `stripes` to a random place; whatever becomes of it.
  Task<void> move_one(routing::HandleBytes handle, std::uint64_t stripes);
  // Has one coordinator even out what its files have, by whatever weights.
  Task<void> spread();
  // Nothing where the coordinator does not answer.
  Task<std::optional<wire::MapPiece>> map(routing::HandleBytes handle, std::uint64_t stripe);

 private:
  std::vector<std::uint32_t> nodes() const;  // also those that come later
  std::uint32_t any_site(const routing::HandleBytes& handle);
  rpc::Endpoint coordinator_of(const routing::HandleBytes& handle) const;

  SimEnsemble& ensemble_;
  Random random_;
  ProcessLoop loop_;
  SimSocket socket_;
};

}  // namespace slice::sim

#endif  // SLICE_TESTS_SIM_STRIPE_MOVER_H
