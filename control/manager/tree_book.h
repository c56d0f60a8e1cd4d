// TreeBook: the trees of the volume (docs/trees.md), which are among the settings: notes them before their
// directories are made, and forgets those that are gone. One loop.
#ifndef SLICE_CONTROL_MANAGER_TREE_BOOK_H
#define SLICE_CONTROL_MANAGER_TREE_BOOK_H

#include <functional>

#include "control/manager/settings_book.h"
#include "wire/trees.h"

namespace slice::manager {

class TreeBook {
 public:
  struct Hooks {
    const LiveSettings& settings;
    ChangeSettings change;
    std::function<std::uint64_t()> random;
  };
  explicit TreeBook(Hooks hooks) : hooks_(std::move(hooks)) {}

  Task<wire::ChangeTreeResult> change(wire::ChangeTreeArgs args);

 private:
  // The number of the tree, noted in `settings`.
  Result<TreeId> note(Settings& settings, const wire::ChangeTreeArgs& args) const;
  static Result<TreeId> forget(Settings& settings, TreeId tree);
  TreeId unused(const Trees& trees) const;

  const Hooks hooks_;
};

}  // namespace slice::manager

#endif  // SLICE_CONTROL_MANAGER_TREE_BOOK_H
