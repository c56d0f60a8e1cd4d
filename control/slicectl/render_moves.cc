#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "control/slicectl/render.h"
#include "control/slicectl/render_parts.h"

namespace slice::slicectl {

namespace {

// A bar of `width` characters, and the part in per cent.
std::string bar_text(std::uint64_t done, std::uint64_t all, std::size_t width) {
  const double part = all == 0 ? 0 : std::min(1.0, static_cast<double>(done) / static_cast<double>(all));
  const auto full = static_cast<std::size_t>(part * static_cast<double>(width));
  return fmt::format("[{}{}] {:3.0f} %", std::string(full, '#'), std::string(width - full, '.'), part * 100);
}

std::string rate_text(std::uint64_t bytes_per_second) {
  return bytes_per_second == 0 ? "as fast as it goes" : bytes_text(bytes_per_second) + "/s";
}

std::vector<std::uint64_t> wide(const std::vector<std::uint32_t>& sites) {
  return {sites.begin(), sites.end()};
}

// Seconds that are left, as long as it goes on as in the last ones.
std::optional<std::uint64_t> time_left(const wire::MoveState& move) {
  if (move.last.phase != wire::MovePhase::kCopying || move.aborting || move.bytes_a_second == 0)
    return std::nullopt;
  if (move.last.expected_bytes <= move.last.copied_bytes) return 0;
  return (move.last.expected_bytes - move.last.copied_bytes) / move.bytes_a_second;
}
std::optional<std::uint64_t> time_left(const wire::SpreadingResult& spread) {
  if (spread.phase != wire::SpreadPhase::kMoving || spread.bytes_a_second == 0) return std::nullopt;
  return spread.left_bytes / spread.bytes_a_second;
}

std::uint64_t seconds_of(std::uint64_t began_ns, std::uint64_t ended_ns) {
  return ended_ns > began_ns ? (ended_ns - began_ns) / 1'000'000'000 : 0;
}

// Behind a bar.
std::string pace_text(std::uint64_t bytes_a_second, std::optional<std::uint64_t> seconds_left) {
  std::string text;
  if (bytes_a_second > 0) text += ", " + bytes_text(bytes_a_second) + "/s";
  if (seconds_left) text += fmt::format(", {} s left", *seconds_left);
  return text;
}

Json move_json(const routing::RoutingTables& tables, const wire::MoveState& move) {
  Json json{{"move", move.move.id.value},
            {"class", wire::role_name(move.move.site_class)},
            {"from", name_of(tables, move.move.from)},
            {"to", name_of(tables, move.move.to)},
            {"sites", move.move.sites},
            {"phase", wire::phase_name(move.last.phase)},
            {"aborting", move.aborting},
            {"copied_bytes", move.last.copied_bytes},
            {"expected_bytes", move.last.expected_bytes},
            {"bytes_per_second", move.bytes_a_second},
            {"attempts_before", move.last.tries},
            {"pause_us", move.last.pause_us},
            {"trouble", move.last.trouble},
            {"began_ns", move.began_ns}};
  json["ended_ns"] = move.ended_ns == 0 ? Json(nullptr) : Json(move.ended_ns);
  auto left = time_left(move);
  json["seconds_left"] = left ? Json(*left) : Json(nullptr);
  return json;
}

}  // namespace

std::string render_moved(const std::string& path, std::uint64_t stripe, const std::string& server,
                         Format format) {
  if (format == Format::kJson) return dump({{"path", path}, {"stripe", stripe}, {"server", server}});
  return fmt::format("stripe {} of {} is on {}\n", stripe, path, server);
}

std::string render_begun(const std::vector<wire::MoveId>& moves, Format format) {
  if (format == Format::kJson) {
    Json list = Json::array();
    for (wire::MoveId id : moves) list.push_back(id.value);
    return dump({{"moves", std::move(list)}});
  }
  if (moves.empty()) return "nothing has to move\n";
  std::string text;
  for (wire::MoveId id : moves) text += fmt::format("move {} has begun\n", id.value);
  return text;
}

namespace {

struct PlanFigures {
  std::size_t sites = 0, moved = 0;
};
PlanFigures figures_of(const routing::RoutingTables& tables, const Plan& plan) {
  PlanFigures figures{.sites = tables.wire().sites[static_cast<std::size_t>(plan.site_class)].size()};
  for (const SitesToMove& each : plan.moves) figures.moved += each.sites.size();
  return figures;
}

Json plan_json(const routing::RoutingTables& tables, const Plan& plan) {
  const PlanFigures figures = figures_of(tables, plan);
  Json list = Json::array();
  for (const SitesToMove& each : plan.moves) {
    list.push_back(
        {{"from", name_of(tables, each.from)}, {"to", name_of(tables, each.to)}, {"sites", each.sites}});
  }
  return {{"class", wire::role_name(plan.site_class)},
          {"sites", figures.sites},
          {"sites_to_move", figures.moved},
          {"moves", std::move(list)}};
}

}  // namespace

std::string render_plan(const routing::RoutingTables& tables, const Plan& plan, Format format) {
  if (format == Format::kJson) return dump(plan_json(tables, plan));
  if (plan.moves.empty()) return "nothing has to move\n";
  std::vector<std::vector<std::string>> rows{{"FROM", "TO", "SITES", "WHICH"}};
  for (const SitesToMove& each : plan.moves) {
    rows.push_back({name_of(tables, each.from), name_of(tables, each.to), std::to_string(each.sites.size()),
                    ranges_text(wide(each.sites), 4)});
  }
  const PlanFigures figures = figures_of(tables, plan);
  return table(rows) +
         fmt::format("{} of {} {} sites ({:.1f} %)\n", figures.moved, figures.sites,
                     wire::role_name(plan.site_class),
                     100.0 * static_cast<double>(figures.moved) / static_cast<double>(figures.sites));
}

std::string render_plans(const routing::RoutingTables& tables, const std::vector<Plan>& plans,
                         Format format) {
  if (format == Format::kJson) {
    Json list = Json::array();
    std::size_t moved = 0;
    for (const Plan& each : plans) {
      moved += figures_of(tables, each).moved;
      list.push_back(plan_json(tables, each));
    }
    return dump({{"sites_to_move", moved}, {"classes", std::move(list)}});
  }
  std::string text;
  for (const Plan& each : plans) {
    if (!each.moves.empty()) text += render_plan(tables, each, format);
  }
  return text.empty() ? "nothing has to move\n" : text;
}

namespace {

// Nothing where it was asked for nothing: there is nothing to tell.
bool tells(const Spread& spread) {
  return !spread.state || spread.state->phase != wire::SpreadPhase::kNever;
}

Json spread_json(const Spread& spread) {
  const wire::SpreadingResult state = spread.state ? *spread.state : wire::SpreadingResult{};
  Json json{{"coordinator", spread.coordinator},
            {"phase", spread.state ? wire::phase_name(state.phase) : "unknown"},
            {"moved_bytes", state.moved_bytes},
            {"left_bytes", state.left_bytes},
            {"failed_stripes", state.failed_stripes},
            {"bytes_per_second", state.bytes_a_second},
            {"trouble", spread.state ? state.trouble : spread.state.error().message}};
  json["began_ns"] = state.began_ns == 0 ? Json(nullptr) : Json(state.began_ns);
  json["ended_ns"] = state.ended_ns == 0 ? Json(nullptr) : Json(state.ended_ns);
  auto left = time_left(state);
  json["seconds_left"] = left ? Json(*left) : Json(nullptr);
  return json;
}

Json spreads_json(const std::vector<Spread>& spreads) {
  Json list = Json::array();
  for (const Spread& each : spreads) {
    if (tells(each)) list.push_back(spread_json(each));
  }
  return list;
}

std::string how_far(const wire::SpreadingResult& state) {
  std::string text;
  if (state.ended_ns != 0) {
    text = fmt::format("{} moved in {} s", bytes_text(state.moved_bytes),
                       seconds_of(state.began_ns, state.ended_ns));
  } else if (state.phase == wire::SpreadPhase::kMoving) {
    text = bar_text(state.moved_bytes, state.moved_bytes + state.left_bytes, 20) + ", " +
           bytes_text(state.moved_bytes) + pace_text(state.bytes_a_second, time_left(state));
  } else if (state.moved_bytes > 0) {
    text = bytes_text(state.moved_bytes) + " moved so far";
  }
  if (state.failed_stripes > 0) text += fmt::format(", {} stripes could not be", state.failed_stripes);
  return text;
}

// Empty where there is nothing to tell.
std::string spreads_text(const std::vector<Spread>& spreads) {
  std::vector<std::vector<std::string>> rows{{"EVENING OUT", "", "", ""}};
  for (const Spread& each : spreads) {
    if (!tells(each)) continue;
    if (!each.state) {
      rows.push_back({each.coordinator, "unknown", "", each.state.error().message});
      continue;
    }
    rows.push_back({each.coordinator, std::string(wire::phase_name(each.state->phase)), how_far(*each.state),
                    each.state->trouble});
  }
  return rows.size() == 1 ? "" : "\n" + table(rows);
}

}  // namespace

std::string render_moves(const routing::RoutingTables& tables, const wire::MovesListResult& moves,
                         const std::vector<Spread>& spreads, Format format) {
  if (format == Format::kJson) {
    Json list = Json::array();
    for (const wire::MoveState& each : moves.moves) list.push_back(move_json(tables, each));
    return dump({{"paused", moves.settings.paused},
                 {"limit_bytes_per_second", moves.settings.bytes_per_second},
                 {"moves", std::move(list)},
                 {"spreads", spreads_json(spreads)}});
  }
  std::string text = fmt::format("limit: {}{}\n", rate_text(moves.settings.bytes_per_second),
                                 moves.settings.paused ? "; paused" : "");
  if (moves.moves.empty()) return text + "no sites are moved\n" + spreads_text(spreads);
  std::vector<std::vector<std::string>> rows{{"MOVE", "CLASS", "SITES", "FROM", "TO", "", "", ""}};
  for (const wire::MoveState& each : moves.moves) {
    const std::string how = each.ended_ns != 0
                                ? fmt::format("{} copied in {} s", bytes_text(each.last.copied_bytes),
                                              seconds_of(each.began_ns, each.ended_ns))
                                : bar_text(each.last.copied_bytes, each.last.expected_bytes, 20) +
                                      pace_text(each.bytes_a_second, time_left(each));
    rows.push_back(
        {std::to_string(each.move.id.value), std::string(wire::role_name(each.move.site_class)),
         ranges_text(wide(each.move.sites), 2), name_of(tables, each.move.from),
         name_of(tables, each.move.to),
         each.aborting && each.ended_ns == 0 ? "giving up" : std::string(wire::phase_name(each.last.phase)),
         how, each.last.trouble});
  }
  return text + table(rows) + spreads_text(spreads);
}

std::string render_settings(const wire::MoveSettings& settings, Format format) {
  if (format == Format::kJson) {
    return dump({{"paused", settings.paused}, {"limit_bytes_per_second", settings.bytes_per_second}});
  }
  return fmt::format("limit: {}; {}\n", rate_text(settings.bytes_per_second),
                     settings.paused ? "paused" : "not paused");
}

}  // namespace slice::slicectl
