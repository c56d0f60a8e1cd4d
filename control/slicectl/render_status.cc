#include "control/slicectl/render_status.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "control/slicectl/plans.h"
#include "control/slicectl/render_parts.h"

namespace slice::slicectl {
namespace {

// Of which generation the settings are that a process goes by, and whether it lags behind.
std::string settings_text(const wire::Member& member, SettingsGeneration in_force) {
  const bool late = member.alive && member.last.settings < in_force;
  return fmt::format("{}{}", member.last.settings.value, late ? ", late" : "");
}

Json status_json(const wire::Member& m, WallTime now) {
  const bool heard = m.last.started_ns != 0;
  const std::int64_t up = now.ns - static_cast<std::int64_t>(m.last.started_ns);
  Json json{{"name", m.entry.name},
            {"role", role_text(m.entry.role)},
            {"endpoint", rpc::to_string(m.entry.endpoint)},
            {"alive", m.alive},
            {"state", m.last.state},
            {"detail", m.last.detail},
            {"generation", m.last.generation.value},
            {"settings", m.last.settings.value},
            {"verifier", m.last.largest_seen.value},
            {"pid", m.last.pid},
            {"uptime_seconds", heard && up > 0 ? up / 1'000'000'000 : 0},
            {"heartbeat_age_ms", heard ? Json(m.age_ms) : Json()},
            {"free_bytes", m.last.free_bytes},
            {"total_bytes", m.last.total_bytes}};
  add_said(json, m.entry);
  return json;
}

// `never`: what is said of one that was not heard.
std::vector<std::string> status_row(const wire::Member& m, SettingsGeneration settings, const char* never) {
  const bool heard = m.last.started_ns != 0;
  const std::string space = m.last.total_bytes == 0 ? "-"
                                                    : fmt::format("{} of {}", bytes_text(m.last.free_bytes),
                                                                  bytes_text(m.last.total_bytes));
  const std::string said = said_text(m.entry);
  return {m.entry.name,
          std::string(role_text(m.entry.role)),
          rpc::to_string(m.entry.endpoint),
          m.alive ? "yes" : fmt::format("no, {}", heard ? age_text(m.age_ms) : never),
          m.last.state.empty() ? "-" : m.last.state,
          heard ? fmt::format("{}", m.last.generation.value) : "-",
          heard ? settings_text(m, settings) : "-",
          space,
          said + (said.empty() || m.last.detail.empty() ? "" : "; ") + m.last.detail};
}

std::string local_time_text(std::int64_t ns) {
  const auto seconds = static_cast<std::time_t>(ns / 1'000'000'000);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(seconds));
}

std::string duration_text(std::int64_t ns) {
  const std::int64_t seconds = std::max<std::int64_t>(ns, 0) / 1'000'000'000;
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (seconds < 3600) return fmt::format("{} min", seconds / 60);
  if (seconds < 2 * 86400) return fmt::format("{} h {} min", seconds / 3600, seconds / 60 % 60);
  return fmt::format("{} days", seconds / 86400);
}

Json finding_json(const Finding& finding, WallTime now) {
  Json json{{"name", finding.name},
            {"level", level_name(finding.level)},
            {"server", finding.server.empty() ? Json(nullptr) : Json(finding.server)},
            {"what", finding.what}};
  json["since_seconds"] = finding.since_ns
                              ? Json(std::max<std::int64_t>(now.ns - *finding.since_ns, 0) / 1'000'000'000)
                              : Json(nullptr);
  json["cure"] = finding.cure;
  return json;
}

// Of the members of a role.
struct RoleSum {
  std::size_t members = 0, alive = 0;
  std::uint64_t free_bytes = 0, total_bytes = 0;  // of those alive
};
RoleSum sum_of(const wire::MembersResult& members, wire::Role role) {
  RoleSum sum;
  for (const wire::Member& each : members.members) {
    if (each.entry.role != role) continue;
    ++sum.members;
    if (!each.alive) continue;
    ++sum.alive;
    sum.free_bytes += each.last.free_bytes;
    sum.total_bytes += each.last.total_bytes;
  }
  return sum;
}

struct MovesSum {
  std::size_t moves = 0;
  std::uint64_t copied_bytes = 0, expected_bytes = 0;
};
MovesSum sum_of(const wire::MovesListResult& moves) {
  MovesSum sum;
  for (const wire::MoveState& each : moves.moves) {
    if (!going_on(each)) continue;
    ++sum.moves;
    sum.copied_bytes += each.last.copied_bytes;
    sum.expected_bytes += each.last.expected_bytes;
  }
  return sum;
}

constexpr std::array<wire::Role, kServerRoles> kRolesShown{wire::Role::kManager,     wire::Role::kDirectory,
                                                           wire::Role::kSmallFile,   wire::Role::kStorage,
                                                           wire::Role::kCoordinator, wire::Role::kProxy};

std::string summary_text(const wire::MembersResult& members, const Heard& heard) {
  std::vector<std::vector<std::string>> rows;
  for (wire::Role role : kRolesShown) {
    const RoleSum sum = sum_of(members, role);
    if (sum.members == 0) continue;
    rows.push_back(
        {"  " + std::string(role_text(role)), fmt::format("{} of {} alive", sum.alive, sum.members),
         sum.total_bytes == 0
             ? ""
             : fmt::format("{} of {} free", bytes_text(sum.free_bytes), bytes_text(sum.total_bytes))});
  }
  if (const wire::LeaderResult* said = leadership(heard)) {
    const std::size_t well = said->places.size() - ill_places(*said).size();
    rows.push_back({"  etcd", fmt::format("{} of {} well", well, said->places.size()),
                    said->leader.empty() ? "no manager leads" : said->leader + " leads"});
  }
  if (heard.moves) {
    const MovesSum sum = sum_of(*heard.moves);
    rows.push_back({"  moves", sum.moves == 0 ? "none" : fmt::format("{} under way", sum.moves),
                    sum.moves == 0 ? ""
                                   : fmt::format("{} of {} copied", bytes_text(sum.copied_bytes),
                                                 bytes_text(sum.expected_bytes))});
  }
  return table(rows);
}

Json summary_json(const wire::MembersResult& members) {
  Json json = Json::object();
  for (wire::Role role : kRolesShown) {
    const RoleSum sum = sum_of(members, role);
    if (sum.members == 0) continue;
    json[std::string(role_text(role))] = {{"servers", sum.members},
                                          {"alive", sum.alive},
                                          {"free_bytes", sum.free_bytes},
                                          {"total_bytes", sum.total_bytes}};
  }
  return json;
}

std::string health_text(const Health& health, WallTime now) {
  std::string text = fmt::format("{}\n", health_name(health.level()));
  for (const Finding& each : health.findings)
    text += fmt::format("  {:<7}  {}\n", level_name(each.level), finding_text(each, now));
  return text;
}

const Finding* same_in(const Health& health, const Finding& finding) {
  const auto found = std::find_if(health.findings.begin(), health.findings.end(), [&](const Finding& each) {
    return each.name == finding.name && each.server == finding.server;
  });
  return found == health.findings.end() ? nullptr : &*found;
}

std::vector<const Finding*> only_in(const Health& health, const Health& other) {
  std::vector<const Finding*> found;
  for (const Finding& each : health.findings) {
    if (same_in(other, each) == nullptr) found.push_back(&each);
  }
  return found;
}

std::string named(const Finding& finding) {
  return finding.name + (finding.server.empty() ? "" : " " + finding.server);
}

}  // namespace

std::string finding_text(const Finding& finding, WallTime now) {
  std::string text = fmt::format("{}: {}", named(finding), finding.what);
  if (finding.since_ns)
    text += fmt::format("; since {} ({})", local_time_text(*finding.since_ns),
                        duration_text(now.ns - *finding.since_ns));
  return text + ". Cure: " + finding.cure;
}

std::string render_status(const EnsembleConfig& config, const Heard& heard, const Health& health,
                          Format format) {
  const wire::MembersResult members = members_of(heard);
  Json servers = Json::array();
  std::vector<std::vector<std::string>> rows{
      {"NAME", "ROLE", "ENDPOINT", "ALIVE", "STATE", "GENERATION", "SETTINGS", "FREE", "DETAIL"}};
  std::size_t alive = 0;
  for (const wire::Member& m : members.members) {
    if (m.entry.role == wire::Role::kRemoved) continue;
    alive += m.alive ? 1 : 0;
    servers.push_back(status_json(m, heard.now));
    rows.push_back(status_row(m, members.settings, heard.members ? "never heard" : "no answer"));
  }
  if (format == Format::kText) {
    return fmt::format("{}\nensemble {}: generation {}, settings {}, {} of {} processes alive{}\n{}\n{}",
                       health_text(health, heard.now), config.name, members.generation.value,
                       members.settings.value, alive, rows.size() - 1,
                       heard.members ? "" : ", as servers say themselves", summary_text(members, heard),
                       table(rows));
  }
  Json findings = Json::array();
  for (const Finding& each : health.findings) findings.push_back(finding_json(each, heard.now));
  Json json{{"health", health_name(health.level())},
            {"findings", std::move(findings)},
            {"ensemble", config.name},
            {"manager_answers", heard.members.has_value()},
            {"generation", members.generation.value},
            {"settings", members.settings.value},
            {"alive", alive},
            {"roles", summary_json(members)}};
  if (const wire::LeaderResult* said = leadership(heard)) {
    json["leader"] = said->leader.empty() ? Json(nullptr) : Json(said->leader);
    json["etcd"] = Json::array();
    for (const wire::StorePlace& each : said->places)
      json["etcd"].push_back({{"member", each.place}, {"trouble", each.trouble}});
  }
  json["moves"] = heard.moves ? Json(sum_of(*heard.moves).moves) : Json(nullptr);
  json["servers"] = std::move(servers);
  return dump(json);
}

std::string render_changes(const Health* before, const Health& now, WallTime when, Format format) {
  const Health none;
  const auto begun = only_in(now, before == nullptr ? none : *before);
  const auto over = only_in(before == nullptr ? none : *before, now);
  const bool other_level = before == nullptr || before->level() != now.level();
  if (begun.empty() && over.empty() && !other_level) return "";
  if (format == Format::kJson) {
    Json json{{"time_ns", when.ns}, {"health", health_name(now.level())}};
    json["begun"] = Json::array();
    json["over"] = Json::array();
    for (const Finding* each : begun) json["begun"].push_back(finding_json(*each, when));
    for (const Finding* each : over) json["over"].push_back(finding_json(*each, when));
    return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  const std::string time = local_time_text(when.ns);
  std::string text;
  if (other_level) text += fmt::format("{} {}\n", time, health_name(now.level()));
  for (const Finding* each : begun) text += fmt::format("{} {}\n", time, finding_text(*each, when));
  for (const Finding* each : over) text += fmt::format("{} over: {}\n", time, named(*each));
  return text;
}

}  // namespace slice::slicectl
