// The commands of slicectl that move sites: `site move`, `rebalance` and `moves`
// (docs/moves.md).
#ifndef SLICE_CONTROL_SLICECTL_MOVE_COMMANDS_H
#define SLICE_CONTROL_SLICECTL_MOVE_COMMANDS_H

#include <optional>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "control/slicectl/output.h"
#include "control/slicectl/queries.h"

namespace slice::slicectl {

// "3", "3,7-9": in order, each once. kInvalid: what is no number or range of sites below 4096.
Result<std::vector<std::uint32_t>> parse_sites(std::string_view text);

class MoveCommands {
 public:
  explicit MoveCommands(const cli::Command& app);

  bool parsed() const;
  // Runs the command that was parsed; the exit code.
  Task<int> run(const Seams& seams, const Output& output);

 private:
  Task<int> move(const Seams& seams, const Output& output);
  Task<int> rebalance(const Seams& seams, const Output& output);
  Task<int> moves(const Seams& seams, const Output& output);
  Task<int> watch(const Seams& seams, const Output& output);
  Task<int> change(const Seams& seams, const Output& output, wire::ChangeMovesArgs args);

  cli::Command site_, move_, rebalance_, moves_, pause_, resume_, abort_, limit_;
  std::string class_, sites_, server_, rate_;
  std::uint64_t id_ = 0;
  bool dry_run_ = false, stop_ = false, watch_ = false;
};

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_MOVE_COMMANDS_H
