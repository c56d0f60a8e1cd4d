// SiteMover: an operator who moves sites between servers of a class while clients use them, pauses moves, and
// gives some up; and who knows at last which tables are in force.
#ifndef SLICE_TESTS_SIM_SITE_MOVER_H
#define SLICE_TESTS_SIM_SITE_MOVER_H

#include <functional>
#include <memory>

#include "tests/sim/ensemble.h"
#include "wire/moves.h"

namespace slice::sim {

class SiteMover {
 public:
  explicit SiteMover(SimEnsemble& ensemble);

  // Whatever becomes of the moves.
  Task<void> move_until(std::function<bool()> over);
  // Sets `ended`, and ends, when no move goes on any more, and tables() are the manager's.
  Task<void> settle(std::shared_ptr<bool> ended);
  const routing::RoutingTables& tables() const { return *tables_; }

 private:
  template <class R, class Args>
  Task<Result<R>> ask(wire::ManagerProcedure procedure, Args args);
  Task<void> do_something();

  SimEnsemble& ensemble_;
  Random random_;
  ProcessLoop loop_;
  SimSocket socket_;
  rpc::Endpoint manager_;
  std::shared_ptr<const routing::RoutingTables> tables_;
  bool moving_ = false;
};

}  // namespace slice::sim

#endif  // SLICE_TESTS_SIM_SITE_MOVER_H
