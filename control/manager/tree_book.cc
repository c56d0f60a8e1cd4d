#include "control/manager/tree_book.h"

#include <utility>

#include "common/log.h"

namespace slice::manager {
namespace {

Status check_place(const Settings& settings, const Tree& tree) {
  if (!is_clean_path(tree.path) || tree.path == "/" || tree.path.size() > kMaxExportPath)
    return fail(Errc::kInvalid, "'{}' is no path that a tree can have", tree.path);
  if (tree.above != TreeId{} && !settings.trees.contains(tree.above)) {
    return fail(Errc::kInvalid,
                "{} is in tree {}, which this manager does not know: make that one again first", tree.path,
                tree.above.value);
  }
  return {};
}

}  // namespace

// By chance: a manager that has lost its settings does not give numbers again that directories have.
TreeId TreeBook::unused(const Trees& trees) const {
  TreeId id;
  while (id == TreeId{} || id == kTreeOfVolumes || trees.contains(id))
    id.value = static_cast<std::uint16_t>(hooks_.random());
  return id;
}

Result<TreeId> TreeBook::note(Settings& settings, const wire::ChangeTreeArgs& args) const {
  SLICE_RETURN_IF_ERROR(check_place(settings, args.what));
  if (args.tree == kTreeOfVolumes || args.what.above == kTreeOfVolumes)
    return fail(Errc::kInvalid, "{} is where raw volumes are, which have no exports", args.what.path);
  const Trees::value_type* known = settings.tree_at(args.what.path);
  if (known != nullptr && (args.tree == TreeId{} || args.tree == known->first)) return known->first;
  if (known != nullptr) {
    return fail(Errc::kInvalid,
                "the directory is of tree {}, and {} is noted as that of tree {}: forget that first",
                args.tree.value, args.what.path, known->first.value);
  }
  // Its directory is another way down by now, or the note of it was lost.
  if (const auto moved = settings.trees.find(args.tree); moved != settings.trees.end()) {
    if (settings.has_export_of(moved->second.path)) {
      return fail(Errc::kInvalid, "tree {} was made at {}, which an [[export]] names: change that first",
                  args.tree.value, moved->second.path);
    }
    moved->second = args.what;
    return args.tree;
  }
  if (settings.trees.size() >= kMaxTrees)
    return fail(Errc::kTooLarge, "{} trees are the most that there may be", kMaxTrees);
  const TreeId id = args.tree == TreeId{} ? unused(settings.trees) : args.tree;
  settings.trees.emplace(id, args.what);
  return id;
}

Result<TreeId> TreeBook::forget(Settings& settings, TreeId tree) {
  const auto found = settings.trees.find(tree);
  if (found == settings.trees.end()) return fail(Errc::kNotFound, "there is no tree {}", tree.value);
  const std::string& path = found->second.path;
  if (settings.has_export_of(path))
    return fail(Errc::kInvalid, "an [[export]] names {}: take that out first, and reload", path);
  for (const auto& [other, what] : settings.trees) {
    if (what.above == tree) return fail(Errc::kInvalid, "the tree {} is in it", what.path);
  }
  settings.quotas.erase({QuotaKind::kTree, tree.value});
  settings.trees.erase(found);
  return tree;
}

Task<wire::ChangeTreeResult> TreeBook::change(wire::ChangeTreeArgs args) {
  wire::ChangeTreeResult result{.refused = {}, .tree = args.tree, .generation = {}, .late = {}};
  auto changed = co_await hooks_.change([&](Settings& settings) -> Status {
    auto done = args.remove ? forget(settings, args.tree) : note(settings, args);
    if (!done) return fail(std::move(done.error()));
    result.tree = *done;
    return {};
  });
  result.generation = hooks_.settings.get()->generation;
  if (!changed) {
    result.refused = changed.error().message;
  } else {
    result.late = std::move(*changed);
    log_info("tree {} is {}", result.tree.value, args.remove ? "forgotten" : "noted at " + args.what.path);
  }
  co_return result;
}

}  // namespace slice::manager
