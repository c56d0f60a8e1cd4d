// `slicectl status`: the health of the ensemble, and how every process is (docs/health.md).
#ifndef SLICE_CONTROL_SLICECTL_STATUS_COMMAND_H
#define SLICE_CONTROL_SLICECTL_STATUS_COMMAND_H

#include "cli/command_line.h"
#include "control/slicectl/output.h"
#include "control/slicectl/queries.h"

namespace slice::slicectl {

class StatusCommand {
 public:
  explicit StatusCommand(const cli::Command& app);

  bool parsed() const { return status_.parsed(); }
  // The exit code: 3 where something is wrong.
  Task<int> run(const Seams& seams, const Output& output);

 private:
  // Until it is ended from outside: on a terminal draws the picture again and again, else writes what
  // changes.
  Task<int> watch(const Seams& seams, const Output& output);

  cli::Command status_;
  bool watch_ = false;
};

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_STATUS_COMMAND_H
