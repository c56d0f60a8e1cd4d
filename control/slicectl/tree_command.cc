#include "control/slicectl/tree_command.h"

#include <utility>

#include "control/slicectl/quota_command.h"
#include "control/slicectl/render_parts.h"

namespace slice::slicectl {
namespace {

std::string path_of(const Settings& settings, TreeId tree) {
  const auto found = settings.trees.find(tree);
  return found == settings.trees.end() ? "/" : found->second.path;
}

}  // namespace

std::string render_trees(const Settings& settings, Format format) {
  Json list = Json::array();
  std::vector<std::vector<std::string>> rows{{"tree", "number", "in", "exported as", "quota"}};
  for (const auto& [id, tree] : settings.trees) {
    const std::string* as = settings.exported_as(id);
    const std::string exported = as != nullptr ? *as : "-";
    const bool limited = settings.quotas.contains({QuotaKind::kTree, id.value});
    list.push_back({{"path", tree.path},
                    {"number", id.value},
                    {"in", path_of(settings, tree.above)},
                    {"exported_as", exported},
                    {"quota", limited}});
    rows.push_back({tree.path, fmt::format("{}", id.value), path_of(settings, tree.above), exported,
                    limited ? "yes" : "-"});
  }
  const std::vector<std::string> none = settings.exports_of_no_tree();
  if (format == Format::kJson) return dump({{"trees", std::move(list)}, {"exports_of_no_tree", none}});
  std::string text = settings.trees.empty() ? "there are no trees\n" : table(rows);
  for (const std::string& path : none) {
    text += fmt::format(
        "an [[export]] names {}, which is no tree: nobody is let in by it (slicectl tree make)\n", path);
  }
  return text;
}

Status parse_owner(const std::string& text, nfs3::SetAttributes& out) {
  const std::size_t colon = text.find(':');
  const auto uid = parse_number(std::string_view(text).substr(0, colon));
  const auto gid = colon == text.npos ? 0 : parse_number(std::string_view(text).substr(colon + 1));
  if (!uid || !gid) return fail(Errc::kInvalid, "'{}' is no owner: 1001 and 1001:50 are", text);
  out.uid = uid;
  if (colon != text.npos) out.gid = gid;
  return {};
}

Result<std::uint32_t> parse_mode(const std::string& text) {
  constexpr std::uint32_t kAll = 07777;
  const auto mode = parse_number(text, 8);
  if (!mode || *mode > kAll) return fail(Errc::kInvalid, "'{}' is no mode: 0755 is", text);
  return *mode;
}

TreeCommand::TreeCommand(const cli::Command& app)
    : tree_(app.add_subcommand(
          "tree", "directories with exports and a quota of their own, and all below them (docs/trees.md)")) {
  tree_.require_subcommand();
  make_ = tree_.add_subcommand("make", "makes a directory that is a tree's; or notes one again");
  make_.add_option("--owner", owner_, "UID[:GID] of the directory; else root's");
  make_.add_option("--mode", mode_, "of the directory").capture_default();
  list_ = tree_.add_subcommand("list", "the trees, and whose exports count in each");
  remove_ = tree_.add_subcommand("remove", "takes an empty one away, with its quota");
  remove_.add_flag("--gone", gone_, "also where there is no such directory: it was lost, not renamed");
  for (const cli::Command& each : {make_, remove_})
    each.add_option("path", path_, "absolute path of its directory within the volume").required();
  tree_.footer(
      "Exit codes: 0 done; 1 nothing is changed, or no answer; 3 changed, and some processes do not know it "
      "yet.");
}

Status TreeCommand::check() {
  if (list_.parsed()) return {};
  if (!is_clean_path(path_) || path_ == "/" || path_.size() > kMaxExportPath)
    return fail(Errc::kInvalid, "'{}' is no path of a tree's directory: as /home/ann", path_);
  if (!make_.parsed()) return {};
  if (!owner_.empty()) SLICE_RETURN_IF_ERROR(parse_owner(owner_, attributes_));
  auto mode = parse_mode(mode_);
  if (!mode) return fail(std::move(mode.error()));
  attributes_.mode = *mode;
  return {};
}

Task<int> TreeCommand::run(const Seams& seams, const Output& output) {
  if (list_.parsed()) co_return co_await list(seams, output);
  const bool makes = make_.parsed();
  auto changed = makes ? co_await make(seams) : co_await remove(seams);
  if (!changed) co_return output.say(changed.error());
  for (const std::string& name : changed->late) output.report(name + " does not know it yet");
  if (output.format == Format::kJson) {
    output.print(dump({{"number", changed->tree.value},
                       {"generation", changed->generation.value},
                       {"late", changed->late}}));
  } else {
    output.print(fmt::format("{}: {}; settings of generation {}\n", path_,
                             makes ? fmt::format("tree {}", changed->tree.value) : "no tree any more",
                             changed->generation.value));
  }
  co_return changed->late.empty() ? 0 : kSomeAreLate;
}

Task<int> TreeCommand::list(const Seams& seams, const Output& output) {
  auto settings = co_await ask_settings(seams);
  if (!settings) co_return output.say(settings.error());
  output.print(render_trees(*settings, output.format));
  co_return 0;
}

Task<Result<TreeCommand::Place>> TreeCommand::find(const Seams& seams) {
  auto tables = co_await ask_tables(seams);
  if (!tables) co_return fail(std::move(tables.error()));
  Place place{.tables = *tables, .above = {}, .there = {}};
  auto above =
      co_await ask_where(seams, *tables, path_.substr(0, std::max<std::size_t>(path_.rfind('/'), 1)));
  if (!above) co_return fail(std::move(above.error()));
  place.above = std::move(*above);
  auto there = co_await ask_where(seams, *tables, path_);
  if (!there && there.error().code != Errc::kNotFound) co_return fail(std::move(there.error()));
  if (there) place.there = std::move(*there);
  co_return place;
}

Task<Result<wire::ChangeTreeResult>> TreeCommand::make(const Seams& seams) {
  auto place = co_await find(seams);
  if (!place) co_return fail(std::move(place.error()));
  if (place->there && !place->is_tree()) {
    co_return fail(
        Errc::kInvalid,
        "{} exists, and is no tree's directory: a tree begins empty. Make it beside, and move there what "
        "is to be in it",
        path_);
  }
  wire::ChangeTreeArgs args{.what = {.path = path_, .above = place->above.handle.tree}};
  if (place->there) args.tree = place->there->handle.tree;
  auto noted = co_await ask_to_change_tree(seams, args);
  if (!noted || place->there) co_return noted;
  Status made =
      co_await make_tree_directory(seams, place->tables, place->above, path_, noted->tree, attributes_);
  if (made) co_return noted;
  // Whose answer was lost may have been made. As long as that is not known its number is nobody else's.
  auto now = co_await find(seams);
  if (now && now->there && now->there->handle.tree == noted->tree) co_return noted;
  const Errc why = made.error().code;
  if (now && why != Errc::kUnavailable && why != Errc::kTimedOut)
    (void)co_await ask_to_change_tree(seams, {.remove = true, .tree = noted->tree, .what = {}});
  co_return fail(std::move(made.error()));
}

Task<Result<wire::ChangeTreeResult>> TreeCommand::remove(const Seams& seams) {
  auto settings = co_await ask_settings(seams);
  if (!settings) co_return fail(std::move(settings.error()));
  auto place = co_await find(seams);
  if (!place && !(gone_ && place.error().code == Errc::kNotFound)) co_return fail(std::move(place.error()));
  if (place && place->is_tree()) {
    const TreeId tree = place->there->handle.tree;
    const auto noted = settings->trees.find(tree);
    if (noted != settings->trees.end() && settings->has_export_of(noted->second.path)) {
      co_return fail(Errc::kInvalid, "an [[export]] names {}: take that out first, and reload",
                     noted->second.path);
    }
    SLICE_CO_RETURN_IF_ERROR(co_await remove_tree_directory(seams, place->tables, place->above, path_));
    if (noted == settings->trees.end()) co_return wire::ChangeTreeResult{.tree = tree};
    co_return co_await ask_to_change_tree(seams, {.remove = true, .tree = tree, .what = {}});
  }
  const Trees::value_type* noted = settings->tree_at(path_);
  if (noted == nullptr) co_return fail(Errc::kNotFound, "{} is no tree", path_);
  if (!gone_) {
    co_return fail(
        Errc::kInvalid,
        "the directory of tree {} is not there: if another above it was renamed, name it as it is now; "
        "--gone forgets the tree, and lets nobody in where it is still there",
        path_);
  }
  co_return co_await ask_to_change_tree(seams, {.remove = true, .tree = noted->first, .what = {}});
}

}  // namespace slice::slicectl
