// The command of slicectl that begins an ensemble, `init`: a folder with the configuration, the key, and a
// script for each host (docs/install.md). It talks to no server.
#ifndef SLICE_CONTROL_SLICECTL_INIT_COMMANDS_H
#define SLICE_CONTROL_SLICECTL_INIT_COMMANDS_H

#include <string>

#include "cli/command_line.h"
#include "control/slicectl/birth.h"
#include "control/slicectl/render.h"

namespace slice::slicectl {

class InitCommands {
 public:
  explicit InitCommands(const cli::Command& app);

  bool parsed() const { return init_.parsed(); }
  // Writes the folder, and returns what there is to say. kInvalid: wrong usage; kExists: the folder has
  // files, and none is written; kIo.
  Result<std::string> run(Format format, const Resolve& resolve = resolve_by_system) const;

 private:
  BirthOptions options_;
  std::string folder_;
  cli::Command init_;
};

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_INIT_COMMANDS_H
