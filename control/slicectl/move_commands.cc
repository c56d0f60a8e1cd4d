#include "control/slicectl/move_commands.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "common/config.h"
#include "control/slicectl/plans.h"

namespace slice::slicectl {
namespace {

constexpr std::uint32_t kMostSites = 4096;
constexpr Duration kWatchPause = std::chrono::milliseconds(500);

Result<wire::Role> parse_class(const std::string& name) {
  for (std::uint32_t c = 0; c < wire::kSiteClasses; ++c) {
    if (wire::role_name(static_cast<wire::Role>(c)) == name) return static_cast<wire::Role>(c);
  }
  return fail(Errc::kInvalid, "'{}' is no class of sites: directory, small-file, storage, coordinator", name);
}

Result<std::uint32_t> index_of(const routing::RoutingTables& tables, const std::string& name) {
  if (const wire::ServerEntry* found = wire::find_member(tables.wire(), name)) return found->server;
  return fail(Errc::kNotFound, "no server has the name '{}'", name);
}

}  // namespace

Result<std::vector<std::uint32_t>> parse_sites(std::string_view text) {
  std::set<std::uint32_t> sites;
  const char *at = text.data(), *end = at + text.size();
  auto number = [&](std::uint32_t& out) {
    auto [behind, error] = std::from_chars(at, end, out);
    if (error != std::errc() || out >= kMostSites) return false;
    at = behind;
    return true;
  };
  while (true) {
    std::uint32_t first = 0;
    bool good = number(first);
    std::uint32_t last = first;
    if (good && at != end && *at == '-') good = number((++at, last)) && last >= first;
    if (!good || (at != end && *at != ','))
      return fail(Errc::kInvalid, "'{}' names no sites, as 3,7-9 does", text);
    for (std::uint32_t site = first; site <= last; ++site) sites.insert(site);
    if (at == end) return std::vector<std::uint32_t>(sites.begin(), sites.end());
    ++at;
  }
}

MoveCommands::MoveCommands(const cli::Command& app)
    : site_(app.add_subcommand("site", "moves sites to another server, data and all, while all serve")),
      move_(site_.add_subcommand("move", "begins to; `slicectl moves` shows how far it is")),
      rebalance_(app.add_subcommand("rebalance",
                                    "moves sites until every server has its share of those of its class")),
      moves_(app.add_subcommand(
          "moves", "moves of sites that go on, and the last that have ended; what coordinators even out")),
      pause_(moves_.add_subcommand("pause", "copies nothing more for now")),
      resume_(moves_.add_subcommand("resume", "goes on copying")),
      abort_(moves_.add_subcommand("abort", "gives one up, whose sites are not given away yet")),
      limit_(moves_.add_subcommand("limit", "how fast all of them together may copy")) {
  site_.require_subcommand();
  moves_.require_subcommand(false);
  move_.add_option("class", class_, "directory, small-file, storage or coordinator").required();
  move_.add_option("sites", sites_, "which: 3, or 3,7-9").required();
  move_.add_option("server", server_, "where to").required();
  rebalance_.add_option("--class", class_, "of this class alone");
  const auto dry_run = rebalance_.add_flag("--dry-run", dry_run_, "only shows what would move");
  rebalance_.add_flag("--stop", stop_, "has coordinators leave off evening out files; moves of sites go on")
      .excludes(dry_run);
  moves_.add_flag("--watch", watch_, "until none goes on any more");
  abort_.add_option("move", id_, "its number").required();
  limit_.add_option("rate", rate_, "bytes a second, e.g. 100MiB; 0: as fast as it goes").required();
}

bool MoveCommands::parsed() const {
  return site_.parsed() || rebalance_.parsed() || moves_.parsed();
}

Task<int> MoveCommands::run(const Seams& seams, const Output& output) {
  using Field = wire::ChangeMovesArgs::Field;
  if (move_.parsed()) return move(seams, output);
  if (rebalance_.parsed()) return rebalance(seams, output);
  wire::ChangeMovesArgs args;
  if (pause_.parsed() || resume_.parsed()) {
    args.fields = Field::kPaused;
    args.settings.paused = pause_.parsed();
  } else if (abort_.parsed()) {
    args.fields = Field::kAbort;
    args.abort = wire::MoveId{id_};
  } else if (limit_.parsed()) {
    args.fields = Field::kRate;
    auto rate = parse_size(rate_);
    if (!rate) {
      return [](Output out, Error error) -> Task<int> { co_return out.say(error); }(output, rate.error());
    }
    args.settings.bytes_per_second = *rate;
  } else {
    return watch_ ? watch(seams, output) : moves(seams, output);
  }
  return change(seams, output, args);
}

Task<int> MoveCommands::move(const Seams& seams, const Output& output) {
  auto site_class = parse_class(class_);
  if (!site_class) co_return output.say(site_class.error());
  auto sites = parse_sites(sites_);
  if (!sites) co_return output.say(sites.error());
  auto tables = co_await ask_tables(seams);
  if (!tables) co_return output.say(tables.error());
  auto to = index_of(**tables, server_);
  if (!to) co_return output.say(to.error());
  auto begun = co_await ask_to_move(seams, {*site_class, *to, *sites});
  if (!begun) co_return output.say(begun.error());
  co_return output.print(render_begun(begun->moves, output.format));
}

Task<int> MoveCommands::rebalance(const Seams& seams, const Output& output) {
  if (stop_) {
    auto tables = co_await ask_tables(seams);
    if (!tables) co_return output.say(tables.error());
    if (Status stopped = co_await stop_spreading(seams, **tables); !stopped)
      co_return output.say(stopped.error());
    co_return output.print(output.format == Format::kJson ? "{}\n" : "coordinators even out files no more\n");
  }
  std::optional<wire::Role> only;
  if (!class_.empty()) {
    auto site_class = parse_class(class_);
    if (!site_class) co_return output.say(site_class.error());
    only = *site_class;
  }
  auto known = co_await ask_known(seams);
  if (!known) co_return output.say(known.error());
  std::vector<Plan> plans;
  if (only) {
    auto plan = plan_of(*known, *only);
    if (!plan) co_return output.say(plan.error());
    plans.push_back(std::move(*plan));
  } else {
    auto all = plans_of(*known);
    if (!all) co_return output.say(all.error());
    plans = std::move(*all);
  }
  for (const Plan& plan : plans) {
    if (dry_run_) break;
    if (Status begun = co_await carry_out(seams, plan); !begun) co_return output.say(begun.error());
  }
  const bool spreads = !dry_run_ && (!only || *only == wire::Role::kStorage);
  if (spreads) {
    if (Status begun = co_await spread_layouts(seams, *known); !begun) co_return output.say(begun.error());
  }
  std::string text = only ? render_plan(*known->tables, plans.front(), output.format)
                          : render_plans(*known->tables, plans, output.format);
  if (spreads && output.format == Format::kText)
    text += "coordinators even out files with copies or block maps (slicectl moves)\n";
  co_return output.print(text);
}

Task<int> MoveCommands::moves(const Seams& seams, const Output& output) {
  auto tables = co_await ask_tables(seams);
  if (!tables) co_return output.say(tables.error());
  auto moves = co_await ask_moves(seams);
  if (!moves) co_return output.say(moves.error());
  const std::vector<Spread> spreads = co_await ask_spreads(seams, **tables);
  co_return output.print(render_moves(**tables, *moves, spreads, output.format));
}

Task<int> MoveCommands::watch(const Seams& seams, const Output& output) {
  std::size_t lines = 0;
  while (true) {
    auto tables = co_await ask_tables(seams);
    auto moves = co_await ask_moves(seams);
    if (tables && moves) {
      const std::vector<Spread> spreads = co_await ask_spreads(seams, **tables);
      const std::string text = render_moves(**tables, *moves, spreads, output.format);
      // Back to where the last picture began.
      const std::string back = output.terminal && lines > 0 ? fmt::format("\x1b[{}A\x1b[J", lines) : "";
      auto some = [](const auto& all) {
        return std::any_of(all.begin(), all.end(), [](const auto& each) { return going_on(each); });
      };
      const bool over = !some(moves->moves) && !some(spreads);
      if (output.terminal || over) output.print(back + text);
      lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
      if (over) co_return 0;
    }
    co_await seams.loop.sleep(kWatchPause);
  }
}

Task<int> MoveCommands::change(const Seams& seams, const Output& output, wire::ChangeMovesArgs args) {
  auto changed = co_await ask_to_change_moves(seams, args);
  if (!changed) co_return output.say(changed.error());
  co_return output.print(render_settings(changed->settings, output.format));
}

}  // namespace slice::slicectl
