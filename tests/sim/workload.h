// Workload: what the clients of a simulation do: calls of all kinds on a few directories and names, so that
// they get into each other's way; and, when all is calm, one of them reads the whole tree.
#ifndef SLICE_TESTS_SIM_WORKLOAD_H
#define SLICE_TESTS_SIM_WORKLOAD_H

#include <memory>
#include <string>
#include <vector>

#include "tests/sim/client.h"
#include "tests/sim/model.h"

namespace slice::sim {

class Workload {
 public:
  Workload(SimEnsemble& ensemble, unsigned clients, unsigned operations);

  const KnownObject& root() const { return known_.front(); }
  History& history() { return history_; }

  // Every client makes its calls, one after the other; idle() when all have ended.
  void start_round();
  // One client looks at everything there is, and at what is known to have been.
  void start_reading();
  bool idle() const { return busy_ == 0; }
  std::string unfinished() const;  // for people: the calls that are under way
  const std::string& failure() const;

  // Most objects that the tree does not have any more are not called again.
  void forget_removed(const Model& tree);

 private:
  Task<void> work(unsigned client);
  Task<void> one_operation(SimClient& client);
  Task<void> make(SimClient& client);
  Task<void> take_away(SimClient& client);
  Task<void> look(SimClient& client);
  Task<void> change(SimClient& client);
  Task<void> touch_bytes(SimClient& client);
  Task<void> read_tree(SimClient& client);
  void learn(const SimClient& client);
  bool crowded() const;
  const KnownObject& any_directory();
  const KnownObject& any_object();
  std::string any_name();

  SimEnsemble& ensemble_;
  Random random_;
  History history_;
  unsigned operations_;
  Duration longest_pause_;  // between a client's calls
  unsigned busy_ = 0;
  std::vector<std::string> names_;
  std::vector<KnownObject> known_;  // the root first
  std::vector<std::unique_ptr<SimClient>> clients_;
  std::string none_;
};

}  // namespace slice::sim

#endif  // SLICE_TESTS_SIM_WORKLOAD_H
