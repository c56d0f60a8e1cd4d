// `slicectl failover`: has a server that has standbys served on another of its hosts (docs/failover.md).
#ifndef SLICE_CONTROL_SLICECTL_FAILOVER_COMMAND_H
#define SLICE_CONTROL_SLICECTL_FAILOVER_COMMAND_H

#include <optional>
#include <string>

#include "cli/command_line.h"
#include "control/slicectl/output.h"
#include "control/slicectl/queries.h"

namespace slice::slicectl {

class FailoverCommand {
 public:
  explicit FailoverCommand(const cli::Command& app);

  bool parsed() const { return failover_.parsed(); }
  // The exit code: 1 where nothing was changed; 3 where it is so, but the server does not serve yet.
  Task<int> run(const Seams& seams, const Output& output);

 private:
  // What a process of the server says; none: none was heard of.
  Task<std::optional<wire::HeartbeatArgs>> heard_of_it(const Seams& seams);
  // Until another process than `before` says that it serves. False: the time is up.
  Task<bool> until_it_serves(const Seams& seams, std::optional<wire::HeartbeatArgs> before);

  cli::Command failover_;
  std::string server_, address_;
  double wait_s_ = 10;
};

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_FAILOVER_COMMAND_H
