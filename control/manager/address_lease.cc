#include "control/manager/address_lease.h"

#include <utility>

namespace slice::manager {
namespace {

using namespace std::chrono_literals;

constexpr Duration kForgotten = 60s;  // who has not asked for so long is not shown

}  // namespace

AddressLease::AddressLease(Loop& loop, Duration patience, const std::vector<wire::ServerEntry>& members,
                           Metrics& metrics)
    : loop_(loop),
      patience_(patience),
      members_(members),
      why_("nobody had it"),
      moves_(metrics.counter("manager_address_moves_total",
                             "times that the virtual address was given to a proxy which did not have it")) {}

bool AddressLease::is_proxy(std::uint32_t server) const {
  return server < members_.size() && members_[server].role == wire::Role::kProxy;
}

const AddressLease::Heard* AddressLease::heard_lately(std::uint32_t server) const {
  auto found = heard_.find(server);
  return found != heard_.end() && lately(found->second) ? &found->second : nullptr;
}

wire::HoldAddressResult AddressLease::ask(const wire::HoldAddressArgs& args) {
  wire::HoldAddressResult result{.patience_ms = static_cast<std::uint32_t>(in_milliseconds(patience_)),
                                 .askers = {},
                                 .peers = {},
                                 .refused = {}};
  if (args.server == wire::kNoServer) {
    if (args.wanted != wire::kNoServer) result.refused = move_to(args.wanted);
    result.askers = askers();
  } else if (is_proxy(args.server)) {
    if (!is_late(args)) hear(args);
    if (peers_of_ == args.server) result.peers_digest = digest(peers_);
    if (holder_ == args.server && !args.holds && peers_of_ != args.server) result.peers = peers_;
  } else if (stranger_log_.allow()) {
    log_warning("server {}, which is no proxy, asks for the virtual address", args.server);
  }
  result.known = holder_ || knows();
  result.holder = holder_.value_or(wire::kNoServer);
  // Who is to let go of it is told so first.
  if (holder_ && moving_to_ && args.server == *holder_) result.holder = *moving_to_;
  return result;
}

bool AddressLease::is_late(const wire::HoldAddressArgs& args) const {
  auto found = heard_.find(args.server);
  return found != heard_.end() && found->second.run == args.run && args.number <= found->second.number;
}

void AddressLease::hear(const wire::HoldAddressArgs& args) {
  const MonoTime now = loop_.now();
  if (!heard_at_ || now - *heard_at_ > patience_) listens_since_ = now;
  heard_at_ = now;
  heard_[args.server] = {
      .at = now, .run = args.run, .number = args.number, .ready = args.ready, .holds = args.holds};
  if (args.holds && !args.peers.empty()) {
    peers_of_ = args.server;
    peers_ = args.peers;
  }
  settle(args.server);
}

std::string AddressLease::move_to(std::uint32_t server) {
  if (!is_proxy(server)) return "it is no proxy";
  const Heard* heard = heard_lately(server);
  if (heard == nullptr) return "it does not ask for the address: it is silent, or has no address_interface";
  if (!heard->ready) return "it is not ready to serve";
  if (!holder_) return "nobody is known to have the address yet";
  if (holder_ == server) {
    moving_to_.reset();
    return "";
  }
  log_info("the virtual address is to go from {} to {}", members_[*holder_].name, members_[server].name);
  moving_to_ = server;
  return "";
}

void AddressLease::give_up_move() {
  if (!moving_to_) return;
  const Heard* heard = heard_lately(*moving_to_);
  if (heard != nullptr && heard->ready) return;
  log_warning("the virtual address does not go to server {}: it is silent or not ready any more",
              *moving_to_);
  moving_to_.reset();
}

std::optional<std::string> AddressLease::reason_to_end(std::uint32_t holder) const {
  if (!is_proxy(holder)) return "which is no proxy any more";
  const Heard& heard = heard_.at(holder);
  // Nor would it have been heard of if it had asked.
  if (!lately(heard) && !knows()) return std::nullopt;
  if (!lately(heard)) return fmt::format("silent for {} ms", in_milliseconds(loop_.now() - heard.at));
  if (heard.holds) return std::nullopt;
  if (moving_to_) return "which let go of it as it was told";
  if (!heard.ready) return "which let go of it";
  return std::nullopt;
}

void AddressLease::settle(std::uint32_t asker) {
  give_up_move();
  if (holder_) {
    auto reason = reason_to_end(*holder_);
    if (!reason) return;
    why_ = fmt::format("it was with {}, {}", is_proxy(*holder_) ? members_[*holder_].name : "a former member",
                       *reason);
    if (!successor(asker)) log_warning("nobody has the virtual address: {}", why_);
    holder_.reset();
  }
  if (!knows()) return;
  if (auto next = successor(asker)) give_to(*next, why_);
}

// Of several who say that they have it the one with the smallest number. Of those who could have it the
// asker: the others may have died together with the holder.
std::optional<std::uint32_t> AddressLease::successor(std::uint32_t asker) const {
  if (moving_to_) return moving_to_;
  for (const auto& [server, heard] : heard_) {
    if (server != holder_ && is_proxy(server) && heard.holds && lately(heard)) return server;
  }
  if (asker != holder_ && heard_.at(asker).ready) return asker;
  return std::nullopt;
}

void AddressLease::give_to(std::uint32_t server, const std::string& why) {
  holder_ = server;
  moving_to_.reset();
  if (heard_.at(server).holds) {
    log_info("{} has the virtual address, and keeps it", members_[server].name);
    return;
  }
  moves_.add();
  log_warning("the virtual address goes to {}: {}", members_[server].name, why);
}

std::vector<wire::AddressAsker> AddressLease::askers() const {
  std::vector<wire::AddressAsker> all;
  for (const auto& [server, heard] : heard_) {
    const Duration age = loop_.now() - heard.at;
    if (age > kForgotten || !is_proxy(server)) continue;
    all.push_back(
        {.server = server, .ready = heard.ready, .holds = heard.holds, .age_ms = in_milliseconds(age)});
  }
  return all;
}

}  // namespace slice::manager
