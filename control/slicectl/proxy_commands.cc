#include "control/slicectl/proxy_commands.h"

#include <algorithm>

#include "control/slicectl/render_parts.h"
#include "routing/client_slots.h"

namespace slice::slicectl {
namespace {

constexpr Duration kHoldPatience = std::chrono::seconds(10);

bool has_it(const wire::HoldAddressResult& told, std::uint32_t proxy) {
  return std::any_of(told.askers.begin(), told.askers.end(),
                     [proxy](const wire::AddressAsker& each) { return each.server == proxy && each.holds; });
}

}  // namespace

ProxyCommands::ProxyCommands(const cli::Command& app) {
  const cli::Command group =
      app.add_subcommand("proxy", "which of several proxies has the virtual address, and which clients");
  group.require_subcommand();
  hold_ = group.add_subcommand("hold", "has another take it over, when the one that has it has let go of it");
  hold_.add_option("name", proxy_, "which is to have it").required();
  clients_ = group.add_subcommand(
      "clients", "which proxies serve clients over TCP, what part of them each, and which serves a client");
  clients_.add_option("address", addresses_, "of clients").ipv4();
}

Task<int> ProxyCommands::run(const Seams& seams, const Output& output) {
  return clients_.parsed() ? show_clients(seams, output) : hold(seams, output);
}

Task<int> ProxyCommands::show_clients(const Seams& seams, const Output& output) {
  auto tables = co_await ask_tables(seams);
  if (!tables) co_return output.say(tables.error());
  auto told = co_await ask_for_sharers(seams);
  if (!told) co_return output.say(told.error());
  if (!told->known)
    co_return output.say(Error{Errc::kUnavailable, "the manager has just begun to lead: in a moment"});
  auto held = co_await ask_to_hold(seams, {});
  if (!held) co_return output.say(held.error());
  const routing::ClientSlots slots(told->current);
  const auto named = [&](std::uint32_t server) {
    return server == wire::kNoServer ? "nobody" : name_of(**tables, server);
  };
  const auto server_of = [&](IpAddress client) {
    return told->current.empty() ? held->holder : slots.of(client);
  };
  std::vector<std::vector<std::string>> rows{{"PROXY", "CLIENTS", "ADDRESS"}};
  Json json{{"holder", named(held->holder)}, {"proxies", Json::array()}, {"clients", Json::object()}};
  const auto add = [&](std::uint32_t server, double part) {
    rows.push_back(
        {named(server), fmt::format("{:.1f} %", part * 100), server == held->holder ? "holds it" : ""});
    json["proxies"].push_back({{"name", named(server)}, {"part", part}});
  };
  for (const wire::Sharer& each : told->current)
    add(each.server, static_cast<double>(slots.count(each.server)) / SLICE_CLIENT_SLOTS);
  if (told->current.empty()) add(held->holder, 1);
  std::vector<std::vector<std::string>> clients{{"CLIENT", "PROXY"}};
  for (const std::string& text : addresses_) {
    const auto address = parse_address(text);
    if (!address) co_return output.say(address.error());
    clients.push_back({text, named(server_of(*address))});
    json["clients"][text] = clients.back()[1];
  }
  if (output.format == Format::kJson) co_return output.print(dump(json));
  co_return output.print(table(rows) + (addresses_.empty() ? "" : "\n" + table(clients)));
}

Task<int> ProxyCommands::hold(const Seams& seams, const Output& output) {
  auto tables = co_await ask_tables(seams);
  if (!tables) co_return output.say(tables.error());
  const wire::ServerEntry* proxy = wire::find_member((*tables)->wire(), proxy_);
  if (proxy == nullptr)
    co_return output.say(Error{Errc::kNotFound, fmt::format("there is no server '{}'", proxy_)});
  auto told = co_await ask_to_hold(seams, {.wanted = proxy->server});
  const MonoTime until = seams.loop.now() + kHoldPatience;
  while (told && !(told->holder == proxy->server && has_it(*told, proxy->server))) {
    if (seams.loop.now() > until) {
      co_return output.say(Error{Errc::kUnavailable,
                                 fmt::format("{} does not have the address yet: slicectl status", proxy_)});
    }
    co_await seams.loop.sleep(kLookPause);
    told = co_await ask_to_hold(seams, {});
  }
  if (!told) co_return output.say(told.error());
  co_return output.print(output.format == Format::kJson ? fmt::format("{{\"holder\": \"{}\"}}\n", proxy_)
                                                        : fmt::format("{} holds the address\n", proxy_));
}

}  // namespace slice::slicectl
