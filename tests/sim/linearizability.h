// Whether a history of operations is linearizable (Herlihy, Wing 1990): whether each operation could have
// happened at one instant between its call and its answer, so that every answer is right. A search in the
// manner of Wing and Gong (1993), which remembers the states it has been in as Lowe (2017) does.
#ifndef SLICE_TESTS_SIM_LINEARIZABILITY_H
#define SLICE_TESTS_SIM_LINEARIZABILITY_H

#include <string>
#include <vector>

#include "tests/sim/model.h"
#include "tests/sim/operation.h"

namespace slice::sim {

inline constexpr std::size_t kMostOperations = 512;  // of one history
inline constexpr std::size_t kMostStates = 500'000;  // visited, before the search gives up

struct Verdict {
  bool gave_up = false;
  std::vector<Model> finals;         // every state that the history may end in; empty: it is not linearizable
  std::vector<std::size_t> longest;  // of all orders tried, one that explains the most operations
};

// From any of `initial`. Unanswered operations may have happened or not.
Verdict linearize(const std::vector<Model>& initial, const std::vector<Operation>& history,
                  std::size_t most_states = kMostStates);

// For people: the history, how far it could be explained, and what could not follow.
std::string explain(const std::vector<Model>& initial, const std::vector<Operation>& history,
                    const Verdict& verdict);

}  // namespace slice::sim

#endif  // SLICE_TESTS_SIM_LINEARIZABILITY_H
