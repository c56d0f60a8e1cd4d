// `slicectl top`: who causes the load (docs/trace.md).
#ifndef SLICE_CONTROL_SLICECTL_TOP_COMMANDS_H
#define SLICE_CONTROL_SLICECTL_TOP_COMMANDS_H

#include <string>

#include "cli/command_line.h"
#include "control/slicectl/output.h"
#include "control/slicectl/queries.h"
#include "control/slicectl/top.h"

namespace slice::slicectl {

class TopCommands {
 public:
  explicit TopCommands(const cli::Command& app);

  bool parsed() const { return top_.parsed(); }
  // Runs the command that was parsed; the exit code.
  Task<int> run(const Seams& seams, const Output& output);

 private:
  cli::Command top_;
  TopTables tables_;
  bool watch_ = false;
  std::size_t rows_ = 10;
  std::string for_ = "1s";
};

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_TOP_COMMANDS_H
