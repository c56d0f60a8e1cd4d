// Rounds: what every simulation is: an ensemble that is started, and rounds of storm and calm until there
// were enough of them, or enough simulated time has passed. What is played in a round is the derived class's.
#ifndef SLICE_TESTS_SIM_ROUNDS_H
#define SLICE_TESTS_SIM_ROUNDS_H

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tests/sim/simulation.h"

namespace slice::sim {

class Rounds {
 public:
  // `longest`: for what must come to its end when all is calm.
  Rounds(const SimulationOptions& options, Trace::Print print, std::chrono::seconds longest);
  virtual ~Rounds();
  Rounds(const Rounds&) = delete;
  Rounds& operator=(const Rounds&) = delete;

  // Once.
  SimulationResult run();

 protected:
  // Before the first round, when all processes serve.
  virtual void prepare() {}
  virtual void play(unsigned round) = 0;
  // What a client complained about; empty as long as all is well.
  virtual std::string complaint() const { return ""; }
  // For people: the calls that are under way.
  virtual std::string unfinished() const { return ""; }

  bool good() const { return result_.failure.empty(); }
  // The first one counts.
  void wrong(std::string why);
  // False, with the failure noted, where it does not come.
  bool wait_for(const std::function<bool()>& done, std::string_view what);
  // Lets the processes that died come back, and waits until all serve.
  bool wait_for_calm();

  SimEnsemble& ensemble() { return *ensemble_; }
  const SimulationOptions& options() const { return options_; }
  SimulationResult& result() { return result_; }

 private:
  bool goes_on(unsigned round) const;

  const SimulationOptions options_;
  const std::chrono::seconds longest_;
  SimulationResult result_;
  std::unique_ptr<SimEnsemble> ensemble_;
};

}  // namespace slice::sim

#endif  // SLICE_TESTS_SIM_ROUNDS_H
