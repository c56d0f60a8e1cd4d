// The lock simulation: clients lock byte ranges of a few files, wait for them and give up, while network and
// servers suffer. No two ever have what excludes one another: a lock is had from when its client hears of it
// until it sends UNLOCK. And when all is calm and everybody has given back what it had, all can be had again:
// no lock is left.
#ifndef SLICE_TESTS_SIM_LOCKS_H
#define SLICE_TESTS_SIM_LOCKS_H

#include "tests/sim/simulation.h"

namespace slice::sim {

// Uses of the options: ensemble, clients, rounds, operations, crashes.
SimulationResult simulate_locks(const SimulationOptions& options, Trace::Print print = nullptr);

}  // namespace slice::sim

#endif  // SLICE_TESTS_SIM_LOCKS_H
