// The byte simulation: clients write, commit, truncate and read files of a simulated ensemble, while network
// and servers suffer. Every file has one writer, so that it is known what each of its blocks may show at any
// instant; and when all is calm and every copy is whole again, the copies must be equal.
#ifndef SLICE_TESTS_SIM_BYTES_H
#define SLICE_TESTS_SIM_BYTES_H

#include "tests/sim/simulation.h"

namespace slice::sim {

// Uses of the options: ensemble, clients (each writes one file), rounds, operations, crashes.
SimulationResult simulate_bytes(const SimulationOptions& options, Trace::Print print = nullptr);

}  // namespace slice::sim

#endif  // SLICE_TESTS_SIM_BYTES_H
