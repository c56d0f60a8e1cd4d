#include "control/manager/client_shares.h"

#include <algorithm>
#include <utility>

#include "routing/client_slots.h"

namespace slice::manager {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLeftIsTold = 10s;
// A client that was given to another proxy has connected to it by then.
constexpr Duration kGivenCounts = 60s;

}  // namespace

ClientShares::ClientShares(Loop& loop, Duration patience, const std::vector<wire::ServerEntry>& members,
                           Metrics& metrics)
    : loop_(loop),
      patience_(patience),
      members_(members),
      changes_(metrics.counter("manager_client_shares_changed_total",
                               "times that clients over TCP were divided among other proxies than before")) {}

bool ClientShares::is_proxy(std::uint32_t server) const {
  return server < members_.size() && members_[server].role == wire::Role::kProxy;
}

bool ClientShares::serves(std::uint32_t server) const {
  return wire::has(current_, server);
}

wire::ShareClientsResult ClientShares::ask(const wire::ShareClientsArgs& args) {
  wire::ShareClientsResult told{.patience_ms = static_cast<std::uint32_t>(in_milliseconds(patience_)),
                                .current = {},
                                .wanted = {},
                                .left = {}};
  const bool operators = args.server == wire::kNoServer;
  if (!operators && !is_proxy(args.server)) {
    if (stranger_log_.allow()) log_warning("server {}, which is no proxy, asks for clients", args.server);
    return told;
  }
  if (!operators) hear(args);
  told.known = began_;
  told.current = current_;
  told.wanted = wanted_;
  if (operators) return told;
  const Heard& heard = heard_[args.server];
  if (!heard.peers.empty()) told.peers_digest = digest(heard.peers);
  if (args.holds && loop_.now() - left_at_ <= kLeftIsTold) {
    told.left = left_;
    told.left_ns = left_ns_;
  }
  return told;
}

void ClientShares::hear(const wire::ShareClientsArgs& args) {
  const MonoTime now = loop_.now();
  if (!heard_at_ || now - *heard_at_ > patience_) {
    listens_since_ = now;
    began_ = false;
    heard_.clear();
    current_.clear();
    wanted_.clear();
  }
  heard_at_ = now;
  Heard& heard = heard_[args.server];
  const bool first = heard.at == MonoTime{};
  if (!first && heard.last.run == args.run && args.number <= heard.last.number) return;
  if (first || !heard.last.fit || !lately(heard)) heard.fit_since = now;
  if (!args.peers.empty()) heard.peers = args.peers;
  heard.at = now;
  heard.last = args;
  heard.last.peers.clear();
  settle();
}

void ClientShares::settle() {
  if (!knows()) return;
  if (!std::exchange(began_, true)) begin();
  wanted_ = fit_ones();
  if (wanted_ != current_ && all_prepared()) change();
}

// Clients are where the one that has the address sends them. Where it does not know, who serves says so
// itself.
void ClientShares::begin() {
  const auto holder = std::ranges::find_if(heard_, [this](const auto& each) {
    return lately(each.second) && each.second.last.holds && each.second.last.heard;
  });
  if (holder != heard_.end()) {
    current_ = holder->second.last.follows;
  } else {
    for (const auto& [server, heard] : heard_)
      if (lately(heard) && heard.last.serves && current_.size() < wire::kMaxSharers)
        current_.push_back({server, heard.last.hardware});
  }
  if (!current_.empty()) log_info("clients over TCP are served by {}, as was heard", names(current_));
}

// Whoever has the address sends the others their clients: where it cannot, it serves all by itself. One that
// serves stays, and who comes has to be fit for a while first, since each change breaks connections.
wire::Sharers ClientShares::fit_ones() const {
  wire::Sharers found;
  for (const auto& [server, heard] : heard_) {
    if (!is_proxy(server) || !lately(heard)) continue;
    if (!heard.last.fit && heard.last.holds) return {};
    const bool lasts = serves(server) || heard.last.holds || loop_.now() - heard.fit_since >= patience_;
    const bool fit = heard.last.fit && lasts;
    if (fit && found.size() < wire::kMaxSharers) found.push_back({server, heard.last.hardware});
  }
  return found;
}

bool ClientShares::all_prepared() const {
  const std::uint64_t wanted = digest(wanted_);
  return std::ranges::all_of(
      wanted_, [&](const wire::Sharer& each) { return heard_.at(each.server).last.prepared == wanted; });
}

std::vector<wire::AddressPeer> ClientShares::all_peers(const Heard& heard) const {
  std::vector<wire::AddressPeer> all = heard.peers;
  if (loop_.now() - heard.given_at <= kGivenCounts)
    all.insert(all.end(), heard.given.begin(), heard.given.end());
  return all;
}

void ClientShares::change() {
  const MonoTime now = loop_.now();
  if (now - left_at_ > kLeftIsTold) left_.clear();
  const routing::ClientSlots slots(wanted_);
  std::map<std::uint32_t, std::vector<wire::AddressPeer>> given;
  for (auto& [server, heard] : heard_) {
    for (const wire::AddressPeer& peer : all_peers(heard)) {
      if (const std::uint32_t owner = slots.of(peer.address); owner != server) given[owner].push_back(peer);
      if (serves(server) && !wire::has(wanted_, server)) left_.push_back(peer);
    }
    if (serves(server) && !wire::has(wanted_, server)) {
      left_at_ = now;
      left_ns_ = static_cast<std::uint64_t>(loop_.wall().ns);
    }
  }
  std::ranges::sort(left_);
  left_.erase(std::unique(left_.begin(), left_.end()), left_.end());
  if (left_.size() > wire::kMaxAddressPeers) left_.resize(wire::kMaxAddressPeers);
  for (auto& [server, heard] : heard_) {
    if (!wire::has(wanted_, server)) heard.peers.clear();
    heard.given = std::move(given[server]);
    heard.given_at = now;
  }
  changes_.add();
  log_warning("clients over TCP are served by {}; before by {}", names(wanted_), names(current_));
  current_ = wanted_;
}

std::string ClientShares::names(const wire::Sharers& sharers) const {
  std::string text;
  for (const wire::Sharer& each : sharers)
    text +=
        (text.empty() ? "" : ", ") + (is_proxy(each.server) ? members_[each.server].name : "a former member");
  return text.empty() ? "who has the virtual address" : text;
}

}  // namespace slice::manager
