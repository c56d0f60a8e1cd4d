// `slicectl proxy hold`: another proxy is to have the virtual address; `slicectl proxy clients`: which
// proxies serve which clients (docs/operations.md, "A second proxy").
#ifndef SLICE_CONTROL_SLICECTL_PROXY_COMMANDS_H
#define SLICE_CONTROL_SLICECTL_PROXY_COMMANDS_H

#include <string>
#include <vector>

#include "cli/command_line.h"
#include "control/slicectl/output.h"
#include "control/slicectl/queries.h"

namespace slice::slicectl {

class ProxyCommands {
 public:
  explicit ProxyCommands(const cli::Command& app);

  bool parsed() const { return hold_.parsed() || clients_.parsed(); }
  // Runs the command that was parsed; the exit code.
  Task<int> run(const Seams& seams, const Output& output);

 private:
  Task<int> hold(const Seams& seams, const Output& output);
  Task<int> show_clients(const Seams& seams, const Output& output);

  cli::Command hold_, clients_;
  std::string proxy_;
  std::vector<std::string> addresses_;
};

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_PROXY_COMMANDS_H
