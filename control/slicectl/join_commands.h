// The command of slicectl that makes this host one of a running ensemble's, `join` (docs/install.md). The key
// is there, brought by the operator; the rest comes from the manager.
#ifndef SLICE_CONTROL_SLICECTL_JOIN_COMMANDS_H
#define SLICE_CONTROL_SLICECTL_JOIN_COMMANDS_H

#include <functional>
#include <string>

#include "cli/command_line.h"
#include "control/slicectl/newcomer.h"
#include "control/slicectl/queries.h"

namespace slice::slicectl {

class JoinCommands {
 public:
  using Print = std::function<void(const std::string& text)>;

  explicit JoinCommands(const cli::Command& app);

  bool parsed() const { return join_.parsed(); }
  // `path`: where the configuration is, or is to be. Nothing on this host is overwritten, and what was done
  // is no hindrance to doing it again. kInvalid: it cannot be as it was asked for.
  Status run(const std::string& path, Duration timeout, const Print& print) const;

 private:
  NewcomerOptions options_;
  std::string manager_, address_;
  bool no_start_ = false;
  cli::Command join_;
};

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_JOIN_COMMANDS_H
