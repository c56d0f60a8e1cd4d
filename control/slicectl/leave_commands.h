// The commands of slicectl that take a server out of use: `server drain` and `server remove`, also of one
// that is lost (docs/moves.md, docs/operations.md).
#ifndef SLICE_CONTROL_SLICECTL_LEAVE_COMMANDS_H
#define SLICE_CONTROL_SLICECTL_LEAVE_COMMANDS_H

#include <functional>
#include <string>

#include "cli/command_line.h"
#include "control/slicectl/output.h"
#include "control/slicectl/plans.h"

namespace slice::slicectl {

class LeaveCommands {
 public:
  // Whether files have bytes on this server and nowhere else: shows which, and is the exit code that says so;
  // 0: none.
  using FilesOnlyOn = std::function<int(const std::string& name)>;

  // `servers`: the group that they belong to.
  LeaveCommands(const cli::Command& servers, FilesOnlyOn files_only_on);

  bool parsed() const { return drain_.parsed() || remove_.parsed(); }
  // Runs the command that was parsed; the exit code.
  Task<int> run(const Seams& seams, const Output& output);

 private:
  // Of the server that was named.
  Task<Result<wire::ChangeServerResult>> ask_for(const Seams& seams, wire::ServerChange change) const {
    return ask_change(seams, {.change = change, .entry = {.name = server_}});
  }
  Task<int> drain(const Seams& seams, const Output& output);
  Task<int> remove(const Seams& seams, const Output& output);
  // May be broken off at any moment, and begun again: it goes on where it was.
  Task<int> give_up(const Seams& seams, const Output& output);
  // Until no site is left on the server, which is lost. 0, or the exit code.
  Task<int> give_sites_to_others(const Seams& seams, const Output& output);
  Task<void> until_heard(const Seams& seams, Generation generation);
  Task<int> remove_when_empty(const Seams& seams, const Output& output);

  FilesOnlyOn files_only_on_;
  cli::Command drain_, remove_;
  std::string server_;
  bool undo_ = false, lost_ = false;
};

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_LEAVE_COMMANDS_H
