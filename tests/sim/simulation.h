// A simulation: one run of a whole ensemble and its clients from one seed. Clients work on a few names for
// some rounds, while the network and the servers suffer; between the rounds all is calm, and what the clients
// saw must be explained by a file system in which every operation happens at one instant, and so must the
// tree that is then there.
#ifndef SLICE_TESTS_SIM_SIMULATION_H
#define SLICE_TESTS_SIM_SIMULATION_H

#include <string>

#include "tests/sim/ensemble.h"

namespace slice::sim {

struct SimulationOptions {
  EnsembleOptions ensemble;
  unsigned clients = 4;
  unsigned rounds = 4;
  unsigned operations = 8;  // of each client in each round
  unsigned crashes = 3;     // at most, in each round
  Duration lasts{0};        // not 0: as many rounds as this takes of simulated time
  SimNetwork::Tamper tamper;
};

struct SimulationResult {
  std::string failure;         // empty: all was well
  std::uint64_t checksum = 0;  // of the trace
  PointCounts points;
  unsigned operations = 0, unanswered = 0, kills = 0, rounds = 0;
  Duration lasted{0};                       // simulated
  unsigned undecided = 0;                   // rounds whose search gave up
  std::map<std::string, unsigned> answers;  // how often each procedure was answered with each status
};

SimulationResult simulate(const SimulationOptions& options, Trace::Print print = nullptr);

}  // namespace slice::sim

#endif  // SLICE_TESTS_SIM_SIMULATION_H
