// `slicectl proxy hold`: another proxy is to have the virtual address (docs/operations.md, "A second proxy").
#ifndef SLICE_CONTROL_SLICECTL_PROXY_COMMANDS_H
#define SLICE_CONTROL_SLICECTL_PROXY_COMMANDS_H

#include <CLI/CLI.hpp>
#include <string>

#include "control/slicectl/output.h"
#include "control/slicectl/queries.h"

namespace slice::slicectl {

class ProxyCommands {
 public:
  explicit ProxyCommands(CLI::App& app);

  bool parsed() const { return hold_->parsed(); }
  // Runs the command that was parsed; the exit code.
  Task<int> run(const Seams& seams, const Output& output);

 private:
  CLI::App* hold_;
  std::string proxy_;
};

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_PROXY_COMMANDS_H
