// `slicectl backing`: the servers whose data lies on storage servers; `adopt`: which of those have all of a
// set that the manager does not know any more (docs/backing.md).
#ifndef SLICE_CONTROL_SLICECTL_BACKING_COMMAND_H
#define SLICE_CONTROL_SLICECTL_BACKING_COMMAND_H

#include <string>
#include <vector>

#include "cli/command_line.h"
#include "control/slicectl/output.h"
#include "control/slicectl/queries.h"

namespace slice::slicectl {

class BackingCommand {
 public:
  explicit BackingCommand(const cli::Command& app);

  bool parsed() const { return backing_.parsed(); }
  // The exit code.
  Task<int> run(const Seams& seams, const Output& output);

 private:
  Task<int> show(const Seams& seams, const Output& output);
  Task<int> adopt(const Seams& seams, const Output& output);

  cli::Command backing_;
  cli::Command adopt_;
  std::string server_;
  std::vector<std::string> members_;
};

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_BACKING_COMMAND_H
