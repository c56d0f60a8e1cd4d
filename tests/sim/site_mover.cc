#include "tests/sim/site_mover.h"

#include <algorithm>
#include <array>
#include <set>

#include "service/internal_call.h"
#include "wire/manager.h"

namespace slice::sim {
namespace {

constexpr rpc::Endpoint kSelf{0x0a4d01fd, 700};  // 10.77.1.253
constexpr std::uint32_t kSender = 0xffffffff;    // no server
constexpr Duration kTimeout = std::chrono::seconds(3);
constexpr Duration kPause = std::chrono::seconds(2);
constexpr std::uint64_t kMostSites = 4;  // of one request
// Whose sites are moved.
constexpr std::array kClasses{wire::Role::kStorage, wire::Role::kCoordinator};
// With the lower ones copying takes long enough for clients to write meanwhile.
constexpr std::array<std::uint64_t, 3> kRates{0, 10'000, 100'000};

}  // namespace

SiteMover::SiteMover(SimEnsemble& ensemble)
    : ensemble_(ensemble),
      random_(ensemble.random().fork("site mover")),
      loop_(ensemble.loop()),
      socket_(loop_, ensemble.network(),
              {.self = kSelf,
               .member = true,
               .sender = kSender,
               .first_xid = static_cast<std::uint32_t>(random_.next())}) {
  const ServerConfig& manager = *ensemble.config().first(ServerRole::kManager);
  manager_ = {manager.address, manager.port};
}

template <class R, class Args>
Task<Result<R>> SiteMover::ask(wire::ManagerProcedure procedure, Args args) {
  return service::internal_call<R>(socket_, manager_, wire::kManagerProgram, procedure, args, kTimeout);
}

Task<void> SiteMover::do_something() {
  using Field = wire::ChangeMovesArgs::Field;
  const std::uint64_t roll = random_.below(10);
  if (roll < 7) {
    const wire::Role site_class = kClasses[random_.below(kClasses.size())];
    const auto servers = ensemble_.tables().servers(site_class);
    const std::size_t all = ensemble_.tables().wire().sites[static_cast<std::size_t>(site_class)].size();
    std::set<std::uint32_t> sites;
    const std::uint64_t count = 1 + random_.below(std::min<std::uint64_t>(kMostSites, all));
    while (sites.size() < count) sites.insert(static_cast<std::uint32_t>(random_.below(all)));
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
    co_await loop_.sleep(random_.between({}, kPause));
    co_await do_something();
  }
  moving_ = false;
}

Task<void> SiteMover::settle(std::shared_ptr<bool> ended) {
  using Field = wire::ChangeMovesArgs::Field;
  while (!*ended) {
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
    tables_ = routing::RoutingTables::make(ensemble_.config(), *tables).value();
    *ended = true;
  }
}

}  // namespace slice::sim
