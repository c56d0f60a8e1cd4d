// SiteMover: an operator who moves sites between servers while clients use them, pauses moves, and gives some
// up; and who knows at last which tables are in force.
#ifndef SLICE_TESTS_SIM_SITE_MOVER_H
#define SLICE_TESTS_SIM_SITE_MOVER_H

#include <functional>
#include <memory>
#include <vector>

#include "service/managers.h"
#include "tests/sim/ensemble.h"
#include "wire/moves.h"

namespace slice::sim {

class SiteMover {
 public:
  // Moves sites of these classes.
  SiteMover(SimEnsemble& ensemble, std::vector<wire::Role> classes);

  // Whatever becomes of the moves.
  Task<void> move_until(std::function<bool()> over);
  // Makes storage servers members, one after another, and lets them start.
  Task<void> add(std::vector<std::uint32_t> servers);
  // Drains a storage server, moves its sites away, and removes it as soon as the manager takes that.
  Task<void> remove_one();
  // Declares lost this storage server, which has died for good, has its sites go to another, and removes it.
  Task<void> lose(std::uint32_t server);
  // Ends when no move goes on any more, no storage server is drained, and tables() are the manager's.
  Task<void> settle();
  // The same, begun now: becomes true then.
  std::shared_ptr<bool> settled();
  const std::shared_ptr<const routing::RoutingTables>& tables() const { return tables_; }

 private:
  template <class R, class Args>
  Task<Result<R>> ask(wire::ManagerProcedure procedure, Args args);
  Task<void> do_something();
  // Its sites, as the manager has them now, go to the other; then it is removed. False: not yet.
  Task<bool> take_out(std::uint32_t server, std::uint32_t other);
  Task<std::string> change_server(wire::ServerChange change, std::uint32_t server);

  SimEnsemble& ensemble_;
  std::vector<wire::Role> classes_;
  Random random_;
  ProcessLoop loop_;
  SimSocket socket_;
  service::Managers managers_;
  std::shared_ptr<const routing::RoutingTables> tables_;
  bool moving_ = false;
};

}  // namespace slice::sim

#endif  // SLICE_TESTS_SIM_SITE_MOVER_H
