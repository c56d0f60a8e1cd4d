#include "tests/sim/site_mover.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "wire/manager.h"

namespace slice::sim {
namespace {

constexpr rpc::Endpoint kSiteMover{0x0a4d01fd, 700};  // 10.77.1.253
constexpr std::uint32_t kSender = 0xffffffff;         // no server
constexpr Duration kTimeout = std::chrono::seconds(3);
constexpr Duration kMovePause = std::chrono::seconds(2);
constexpr std::uint64_t kMostSites = 4;  // of one request
// With the lower ones copying takes long enough for clients to write meanwhile.
constexpr std::array<std::uint64_t, 3> kRates{0, 10'000, 100'000};

}  // namespace

SiteMover::SiteMover(SimEnsemble& ensemble, std::vector<wire::Role> classes)
    : ensemble_(ensemble),
      classes_(std::move(classes)),
      random_(ensemble.random().fork("site mover")),
      loop_(ensemble.loop()),
      socket_(loop_, ensemble.network(),
              {.self = kSiteMover,
               .member = true,
               .sender = kSender,
               .first_xid = static_cast<std::uint32_t>(random_.next())}),
      managers_(ensemble.config()) {}

template <class R, class Args>
Task<Result<R>> SiteMover::ask(wire::ManagerProcedure procedure, Args args) {
  return managers_.call<R>(socket_, procedure, args, kTimeout);
}

Task<void> SiteMover::do_something() {
  using Field = wire::ChangeMovesArgs::Field;
  const std::uint64_t roll = random_.below(11);
  if (roll == 10) {
    const auto nodes = ensemble_.tables().servers(wire::Role::kStorage);
    const bool drain = random_.chance(0.5);
    (void)co_await change_server(drain ? wire::ServerChange::kDrain : wire::ServerChange::kUse,
                                 nodes[random_.below(nodes.size())]->server);
  } else if (roll < 7) {
    const wire::Role site_class =
        classes_.size() == 1 ? classes_.front() : classes_[random_.below(classes_.size())];
    const auto servers = ensemble_.tables().servers(site_class);
    const std::uint32_t sites_of_class = ensemble_.config().site_counts[static_cast<std::size_t>(site_class)];
    std::set<std::uint32_t> sites;
    const std::uint64_t count = 1 + random_.below(kMostSites);
    while (sites.size() < count) sites.insert(static_cast<std::uint32_t>(random_.below(sites_of_class)));
    const std::uint32_t to = servers[random_.below(servers.size())]->server;
    auto begun = co_await ask<wire::StartMovesResult>(
        wire::ManagerProcedure::kMoveSites,
        wire::StartMovesArgs{site_class, to, {sites.begin(), sites.end()}});
    ensemble_.trace().note("{} {} sites from {} on are to go to {}: {}", sites.size(),
                           wire::role_name(site_class), *sites.begin(), to,
                           begun ? begun->refused : begun.error().message);
  } else if (roll < 9) {
    auto moves = co_await ask<wire::MovesListResult>(wire::ManagerProcedure::kMoves, service::NoArguments{});
    if (!moves || moves->moves.empty()) co_return;
    const wire::MoveId id = moves->moves[random_.below(moves->moves.size())].move.id;
    ensemble_.trace().note("move {} is to be given up", id.value);
    (void)co_await ask<wire::ChangeMovesResult>(
        wire::ManagerProcedure::kChangeMoves,
        wire::ChangeMovesArgs{.fields = Field::kAbort, .settings = {}, .abort = id});
  } else {
    const wire::MoveSettings settings{.paused = random_.chance(0.5),
                                      .bytes_per_second = kRates[random_.below(kRates.size())]};
    ensemble_.trace().note("moves are {}, at {} bytes a second", settings.paused ? "paused" : "resumed",
                           settings.bytes_per_second);
    (void)co_await ask<wire::ChangeMovesResult>(
        wire::ManagerProcedure::kChangeMoves,
        wire::ChangeMovesArgs{.fields = Field::kPaused | Field::kRate, .settings = settings, .abort = {}});
  }
}

// Why it was refused; empty: it was not.
Task<std::string> SiteMover::change_server(wire::ServerChange change, std::uint32_t server) {
  const ServerConfig& config = ensemble_.config().servers[server];
  const std::string& name = config.name;
  const rpc::Endpoint endpoint{config.address, config.port};
  auto changed = co_await ask<wire::ChangeServerResult>(
      wire::ManagerProcedure::kChangeServer,
      wire::ChangeServerArgs{.change = change,
                             .entry = {.role = wire::Role::kStorage, .endpoint = endpoint, .name = name}});
  std::string why = changed ? changed->refused : changed.error().message;
  ensemble_.trace().note("{}: change {}: {}", name, static_cast<int>(change), why.empty() ? "done" : why);
  co_return why;
}

Task<void> SiteMover::add(std::vector<std::uint32_t> servers) {
  for (std::uint32_t server : servers) {
    while (!(co_await change_server(wire::ServerChange::kAdd, server)).empty())
      co_await loop_.sleep(std::chrono::milliseconds(100));
    ensemble_.come(server);
  }
}

Task<void> SiteMover::remove_one() {
  const auto nodes = ensemble_.tables().servers(wire::Role::kStorage);
  const std::size_t chosen = random_.below(nodes.size());
  const std::uint32_t leaves = nodes[chosen]->server, other = nodes[(chosen + 1) % nodes.size()]->server;
  for (;;) {
    co_await loop_.sleep(std::chrono::milliseconds(100));
    if (!(co_await change_server(wire::ServerChange::kDrain, leaves)).empty()) continue;
    if (co_await take_out(leaves, other)) co_return;
  }
}

Task<bool> SiteMover::take_out(std::uint32_t server, std::uint32_t other) {
  auto tables = co_await ask<wire::Tables>(wire::ManagerProcedure::kGetTables, service::NoArguments{});
  if (!tables) co_return false;
  const auto sites = wire::sites_of(*tables, ensemble_.config().servers[server].name);
  if (!sites.empty())
    (void)co_await ask<wire::StartMovesResult>(wire::ManagerProcedure::kMoveSites,
                                               wire::StartMovesArgs{wire::Role::kStorage, other, sites});
  co_return (co_await change_server(wire::ServerChange::kRemove, server)).empty();
}

Task<void> SiteMover::lose(std::uint32_t server) {
  const auto nodes = ensemble_.tables().servers(wire::Role::kStorage);
  do {
    co_await loop_.sleep(std::chrono::milliseconds(500));
  } while (!(co_await change_server(wire::ServerChange::kLose, server)).empty());
  for (std::size_t turn = 0;; ++turn) {
    const std::uint32_t other = nodes[turn % nodes.size()]->server;
    if (other != server && co_await take_out(server, other)) co_return;
    co_await loop_.sleep(std::chrono::milliseconds(500));
  }
}

Task<void> SiteMover::move_until(std::function<bool()> over) {
  if (moving_) co_return;
  moving_ = true;
  using Field = wire::ChangeMovesArgs::Field;
  (void)co_await ask<wire::ChangeMovesResult>(
      wire::ManagerProcedure::kChangeMoves,
      wire::ChangeMovesArgs{.fields = Field::kRate,
                            .settings = {.bytes_per_second = kRates[random_.below(kRates.size())]},
                            .abort = {}});
  while (!over()) {
    co_await loop_.sleep(random_.between({}, kMovePause));
    co_await do_something();
  }
  moving_ = false;
}

std::shared_ptr<bool> SiteMover::settled() {
  auto ended = std::make_shared<bool>(false);
  spawn([](SiteMover& self, std::shared_ptr<bool> done) -> Task<void> {
    co_await self.settle();
    *done = true;
  }(*this, ended));
  return ended;
}

Task<void> SiteMover::settle() {
  using Field = wire::ChangeMovesArgs::Field;
  for (;;) {
    co_await loop_.sleep(std::chrono::milliseconds(100));
    if (moving_) continue;
    auto going = co_await ask<wire::ChangeMovesResult>(
        wire::ManagerProcedure::kChangeMoves,
        wire::ChangeMovesArgs{.fields = Field::kPaused | Field::kRate, .settings = {}, .abort = {}});
    if (!going || !going->refused.empty()) continue;
    auto moves = co_await ask<wire::MovesListResult>(wire::ManagerProcedure::kMoves, service::NoArguments{});
    if (!moves) continue;
    const bool some = std::any_of(moves->moves.begin(), moves->moves.end(),
                                  [](const wire::MoveState& each) { return each.ended_ns == 0; });
    if (some) continue;
    auto tables = co_await ask<wire::Tables>(wire::ManagerProcedure::kGetTables, service::NoArguments{});
    if (!tables) continue;
    auto drained =
        std::find_if(tables->servers.begin(), tables->servers.end(),
                     [](const wire::ServerEntry& each) { return each.drained && each.lost.value == 0; });
    if (drained != tables->servers.end()) {
      (void)co_await change_server(wire::ServerChange::kUse, drained->server);
      continue;
    }
    tables_ = routing::RoutingTables::make(ensemble_.config(), *tables).value();
    co_return;
  }
}

}  // namespace slice::sim
