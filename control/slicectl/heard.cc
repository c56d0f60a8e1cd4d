#include "control/slicectl/heard.h"

#include <algorithm>
#include <utility>

#include "control/slicectl/metrics_text.h"
#include "service/internal_call.h"
#include "service/managers.h"

namespace slice::slicectl {
namespace {

// Whoever does not answer a small question by then is not well, whatever --timeout allows.
constexpr Duration kPatience = std::chrono::seconds(2);
using service::Managers;

template <class R>
Task<Result<R>> ask_the_manager(const Seams& seams, Managers& managers, wire::ManagerProcedure procedure) {
  return managers.call<R>(seams.channel, procedure, service::NoArguments{}, seams.timeout,
                          Managers::kRefusedPatience);
}

template <class R>
Task<Result<R>> ask_itself(const Seams& seams, const wire::ServerEntry& server,
                           wire::AdminProcedure procedure) {
  return service::internal_call<R>(seams.channel, server.endpoint, wire::kAdminProgram, procedure,
                                   service::NoArguments{}, seams.timeout, Managers::kRefusedPatience);
}

// Its metrics first: the time that a connection takes is then no part of the second question, by which clocks
// are compared.
Task<HeardServer> hear_server(const Seams& seams, wire::ServerEntry entry) {
  HeardServer heard{.entry = std::move(entry)};
  auto metrics = co_await ask_itself<wire::MetricsResult>(seams, heard.entry, wire::AdminProcedure::kMetrics);
  if (!metrics) {
    heard.silence = std::move(metrics).error();
    co_return heard;
  }
  heard.metrics = std::move(metrics->text);
  heard.figures = figures_of(heard.metrics);
  const WallTime asked = seams.loop.wall();
  const MonoTime begun = seams.loop.now_exactly();
  auto about = co_await ask_itself<wire::AboutResult>(seams, heard.entry, wire::AdminProcedure::kAbout);
  if (!about) co_return heard;
  const Duration round_trip = seams.loop.now_exactly() - begun;
  heard.inexact = round_trip / 2;
  heard.ahead_ns = static_cast<std::int64_t>(about->wall_ns) - asked.ns - heard.inexact.count();
  heard.about = std::move(*about);
  if (heard.entry.role == wire::Role::kCoordinator)
    heard.spread = co_await ask_spread(seams, heard.entry.endpoint);
  if (heard.entry.role == wire::Role::kManager && seams.config.managers.shared()) {
    auto leader = co_await service::internal_call<wire::LeaderResult>(
        seams.channel, heard.entry.endpoint, wire::kManagerProgram, wire::ManagerProcedure::kLeader,
        service::NoArguments{}, seams.timeout, Managers::kRefusedPatience);
    if (leader) heard.leader = std::move(*leader);
  }
  co_return heard;
}

Task<void> hear_manager(const Seams& seams, Heard& heard) {
  using Procedure = wire::ManagerProcedure;
  Managers managers(seams.config);
  auto members = co_await ask_the_manager<wire::MembersResult>(seams, managers, Procedure::kMembers);
  if (!members) {
    heard.manager_silence = std::move(members).error();
    co_return;
  }
  heard.members = std::move(*members);
  auto tables = co_await ask_the_manager<wire::Tables>(seams, managers, Procedure::kGetTables);
  if (tables) heard.tables = std::move(*tables);
  auto moves = co_await ask_the_manager<wire::MovesListResult>(seams, managers, Procedure::kMoves);
  if (moves) heard.moves = std::move(*moves);
  auto backing = co_await ask_the_manager<wire::BackingSetsResult>(seams, managers, Procedure::kBackingSets);
  if (backing) heard.backing = std::move(*backing);
  auto standbys = co_await ask_the_manager<wire::StandbysResult>(seams, managers, Procedure::kStandbys);
  if (standbys) heard.standbys = std::move(*standbys);
}

std::vector<wire::ServerEntry> entries_of(const EnsembleConfig& config, const Heard& heard) {
  std::vector<wire::ServerEntry> entries;
  if (heard.members) {
    for (const wire::Member& each : heard.members->members) entries.push_back(each.entry);
  } else {
    for (const ServerConfig& each : config.servers) {
      entries.push_back({.server = each.index,
                         .role = static_cast<wire::Role>(each.role),
                         .endpoint = {each.address, each.port},
                         .name = each.name,
                         .weight = each.weight,
                         .host = each.host,
                         .rack = each.rack});
    }
  }
  std::erase_if(entries, [](const wire::ServerEntry& each) { return each.role == wire::Role::kRemoved; });
  return entries;
}

}  // namespace

std::map<std::string, double, std::less<>> figures_of(std::string_view metrics) {
  std::map<std::string, double, std::less<>> figures;
  for_each_sample(metrics, [&](const MetricSample& sample) {
    if (sample.labels.empty()) figures[std::string(sample.name)] = sample.value;
  });
  return figures;
}

Task<Heard> hear(const Seams& given) {
  Seams seams = given;
  seams.timeout = std::min(given.timeout / 2, kPatience);
  Heard heard;
  co_await hear_manager(seams, heard);
  std::vector<Task<HeardServer>> asked;
  for (wire::ServerEntry& each : entries_of(seams.config, heard))
    asked.push_back(hear_server(seams, std::move(each)));
  heard.servers = co_await all(std::move(asked));
  heard.now = seams.loop.wall();
  co_return heard;
}

std::vector<Spread> spreads_of(const Heard& heard) {
  std::vector<Spread> spreads;
  for (const HeardServer& each : heard.servers) {
    if (each.entry.role != wire::Role::kCoordinator) continue;
    if (each.silence) {
      spreads.push_back({each.entry.name, fail(*each.silence)});
    } else if (each.spread) {
      spreads.push_back({each.entry.name, *each.spread});
    }
  }
  return spreads;
}

const wire::LeaderResult* leadership(const Heard& heard) {
  const wire::LeaderResult* some = nullptr;
  for (const HeardServer& each : heard.servers) {
    if (each.leader && (some == nullptr || each.leader->leads)) some = &*each.leader;
  }
  return some;
}

std::vector<std::string> ill_places(const wire::LeaderResult& said) {
  std::vector<std::string> ill;
  for (const wire::StorePlace& each : said.places) {
    if (!each.trouble.empty()) ill.push_back(fmt::format("{}: {}", each.place, each.trouble));
  }
  return ill;
}

wire::MembersResult members_of(const Heard& heard) {
  if (heard.members) return *heard.members;
  wire::MembersResult result;
  for (const HeardServer& each : heard.servers) {
    wire::Member member{.entry = each.entry, .alive = !each.silence};
    if (each.about) member.last = each.about->told;
    member.last.server = each.entry.server;
    result.generation = std::max(result.generation, member.last.generation);
    result.settings = std::max(result.settings, member.last.settings);
    result.members.push_back(std::move(member));
  }
  return result;
}

}  // namespace slice::slicectl
