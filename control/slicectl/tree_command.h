// `slicectl tree`: directories with exports and a quota of their own (docs/trees.md).
#ifndef SLICE_CONTROL_SLICECTL_TREE_COMMAND_H
#define SLICE_CONTROL_SLICECTL_TREE_COMMAND_H

#include <memory>
#include <optional>
#include <string>

#include "cli/command_line.h"
#include "control/slicectl/output.h"
#include "control/slicectl/queries.h"

namespace slice::slicectl {

std::string render_trees(const Settings& settings, Format format);
// "1001" or "1001:50", into what a new directory is to have. kInvalid.
Status parse_owner(const std::string& text, nfs3::SetAttributes& out);
// "0755". kInvalid.
Result<std::uint32_t> parse_mode(const std::string& text);

class TreeCommand {
 public:
  explicit TreeCommand(const cli::Command& app);

  bool parsed() const { return tree_.parsed(); }
  // What was asked for in the wrong way; also before a configuration is read.
  Status check();
  // The exit code: 1 where nothing was changed; 3 where it is changed, and some processes do not know it yet.
  Task<int> run(const Seams& seams, const Output& output);

 private:
  // The directory with the path, and the one that it is in.
  struct Place {
    std::shared_ptr<const routing::RoutingTables> tables;
    Where above;
    std::optional<Where> there;  // nothing: there is no such directory
    bool is_tree() const { return there && there->handle.tree != above.handle.tree; }
  };
  Task<Result<Place>> find(const Seams& seams);
  Task<Result<wire::ChangeTreeResult>> make(const Seams& seams);
  Task<Result<wire::ChangeTreeResult>> remove(const Seams& seams);
  Task<int> list(const Seams& seams, const Output& output);

  cli::Command tree_, make_, list_, remove_;
  std::string path_, owner_, mode_ = "0755";
  bool gone_ = false;
  nfs3::SetAttributes attributes_;  // check() sets it
};

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_TREE_COMMAND_H
