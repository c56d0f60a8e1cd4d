#include "control/proxyd/wanted_sites.h"

#include <algorithm>
#include <utility>

namespace slice::proxy {
namespace {

constexpr Duration kTimeout = std::chrono::seconds(3);

bool has_ended(const wire::MoveState& move) {
  return move.ended_ns != 0;
}

}  // namespace

WantedSites::WantedSites(service::ServiceContext& context)
    : context_(context),
      managers_(context.config),
      asked_total_(context.metrics.counter("proxy_wanted_asked_total",
                                           "sites whose move was begun for an entry of wanted")),
      done_(context.metrics.counter("proxy_wanted_done_total",
                                    "entries of wanted that were cleared since the site is there")),
      refused_(context.metrics.counter(
          "proxy_wanted_refused_total",
          "entries of wanted that were cleared since they cannot be fulfilled, or their move was given up")) {
}

void WantedSites::keep(Tables tables) {
  tables_ = tables;
  if (tables_.wanted != nullptr) look_and_wait();
}

void WantedSites::look_and_wait() {
  spawn([](WantedSites& self) -> Task<void> {
    co_await look(self);
    self.context_.loop.after(kStep, [&self] { self.look_and_wait(); });
  }(*this));
}

Task<void> WantedSites::look(WantedSites& self) {
  std::vector<Wish> wishes = self.read();
  std::erase_if(self.asked_, [&wishes](const auto& asked) {
    return std::none_of(wishes.begin(), wishes.end(), [&asked](const Wish& wish) {
      return wish.key == asked.first && wish.server == asked.second.server;
    });
  });
  if (wishes.empty()) co_return;
  self.managers_.learn(self.context_.tables.get()->wire());
  auto moves = co_await self.managers_.call<wire::MovesListResult>(
      self.context_.channel, wire::ManagerProcedure::kMoves, service::NoArguments{}, kTimeout);
  if (!moves) {
    if (self.silence_log_.allow()) {
      log_warning("{} sites are wanted elsewhere, and the manager does not answer: {}", wishes.size(),
                  moves.error().message);
    }
    co_return;
  }
  // One question for all sites of a class that are to go to one server.
  std::map<std::uint32_t, std::vector<Wish>> by_server;
  for (const Wish& wish : wishes) {
    if (self.is_to_be_asked(wish, *moves)) by_server[wish.server].push_back(wish);
  }
  for (auto& [server, group] : by_server) co_await self.ask(std::move(group));
}

std::vector<WantedSites::Wish> WantedSites::read() {
  std::vector<Wish> wishes;
  for (std::uint32_t key = 0; key < SLICE_CLASSES * SLICE_MAX_SITES; ++key) {
    const std::uint32_t server = slice_load_relaxed32(&tables_.wanted[key].server);
    if (server == 0) continue;
    const Wish wish{.key = key,
                    .site_class = static_cast<wire::Role>(key / SLICE_MAX_SITES),
                    .site = key % SLICE_MAX_SITES,
                    .server = server};
    if (std::string why = objection(wish); !why.empty()) {
      refuse(wish, why);
    } else {
      wishes.push_back(wish);
    }
  }
  return wishes;
}

std::string WantedSites::objection(const Wish& wish) const {
  const wire::Tables& now = context_.tables.get()->wire();
  if (wish.site >= now.sites[static_cast<std::size_t>(wish.site_class)].size())
    return "there is no such site";
  if (wish.server > now.servers.size()) return fmt::format("there is no server {}", wish.server);
  const wire::ServerEntry& server = now.servers[wish.server - 1];
  if (server.role != wish.site_class) {
    return fmt::format("server {}, {}, is a {}", wish.server, server.name, wire::role_name(server.role));
  }
  return "";
}

bool WantedSites::is_to_be_asked(const Wish& wish, const wire::MovesListResult& moves) {
  Asked& asked = asked_[wish.key];  // gone after clear()
  asked.server = wish.server;
  for (const wire::MoveState& each : moves.moves) {
    if (each.move.site_class != wish.site_class || !each.move.has(wish.site)) continue;
    const bool brings_it = each.move.to == wish.server - 1;
    if (!has_ended(each)) {
      if (brings_it) asked.moves = {each.move.id};
      return false;  // where it goes elsewhere, that has to end first, also where the site is still right
    }
    if (std::find(asked.moves.begin(), asked.moves.end(), each.move.id) == asked.moves.end()) continue;
    if (each.last.phase == wire::MovePhase::kAborted) {
      refuse(wish, fmt::format("move {} was given up", each.move.id.value));
      return false;
    }
    if (!is_there(wish)) return false;  // done: the tables come
  }
  if (!is_there(wish)) return true;
  done_.add();
  if (done_log_.allow()) {
    log_info("wanted: {} site {} is at server {}", wire::role_name(wish.site_class), wish.site, wish.server);
  }
  clear(wish);
  return false;
}

bool WantedSites::is_there(const Wish& wish) const {
  const wire::Tables& now = context_.tables.get()->wire();
  if (now.sites[static_cast<std::size_t>(wish.site_class)][wish.site] != wish.server - 1) return false;
  // And whoever looks into `sites` sees it.
  return slice_load_relaxed32(&tables_.config->generation) ==
         static_cast<std::uint32_t>(now.generation.value);
}

Task<void> WantedSites::ask(std::vector<Wish> wishes) {
  auto result = co_await start_moves(wishes);
  if (!result) {
    if (silence_log_.allow()) {
      log_warning("{} sites are wanted elsewhere, and the manager does not answer: {}", wishes.size(),
                  result.error().message);
    }
    co_return;
  }
  if (result->refused.empty()) {
    asked_total_.add(wishes.size());
    for (const Wish& wish : wishes) asked_[wish.key] = {.server = wish.server, .moves = result->moves};
    co_return;
  }
  if (result->later) {
    if (silence_log_.allow()) {
      log_warning("wanted: {} sites wait, since the manager says: {}", wishes.size(), result->refused);
    }
    // What stands in the way of one is nothing to the others.
    if (wishes.size() == 1) co_return;
  } else if (wishes.size() == 1) {
    refuse(wishes.front(), result->refused);
    co_return;
  }
  for (const Wish& wish : wishes) co_await ask({wish});
}

Task<Result<wire::StartMovesResult>> WantedSites::start_moves(const std::vector<Wish>& wishes) {
  wire::StartMovesArgs args{
      .site_class = wishes.front().site_class, .to = wishes.front().server - 1, .sites = {}};
  for (const Wish& wish : wishes) args.sites.push_back(wish.site);
  return managers_.call<wire::StartMovesResult>(context_.channel, wire::ManagerProcedure::kMoveSites, args,
                                                kTimeout);
}

void WantedSites::refuse(const Wish& wish, std::string_view why) {
  refused_.add();
  if (refused_log_.allow()) {
    log_warning("wanted: {} site {} is not moved to server {}: {}; its entry is cleared",
                wire::role_name(wish.site_class), wish.site, wish.server, why);
  }
  clear(wish);
}

void WantedSites::clear(const Wish& wish) {
  std::uint32_t read = wish.server;
  asked_.erase(wish.key);
  __atomic_compare_exchange_n(&tables_.wanted[wish.key].server, &read, 0u, false, __ATOMIC_RELAXED,
                              __ATOMIC_RELAXED);
}

}  // namespace slice::proxy
