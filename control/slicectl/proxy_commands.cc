#include "control/slicectl/proxy_commands.h"

#include <algorithm>

namespace slice::slicectl {
namespace {

constexpr Duration kHoldPatience = std::chrono::seconds(10);

bool has_it(const wire::HoldAddressResult& told, std::uint32_t proxy) {
  return std::any_of(told.askers.begin(), told.askers.end(),
                     [proxy](const wire::AddressAsker& each) { return each.server == proxy && each.holds; });
}

}  // namespace

ProxyCommands::ProxyCommands(CLI::App& app) {
  auto* group =
      app.add_subcommand("proxy", "which of several proxies has the virtual address")->require_subcommand(1);
  hold_ =
      group->add_subcommand("hold", "has another take it over, when the one that has it has let go of it");
  hold_->add_option("name", proxy_, "which is to have it")->required();
}

Task<int> ProxyCommands::run(const Seams& seams, const Output& output) {
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
