#include "proxy/programs/free_locks.h"

#include <map>
#include <set>
#include <utility>

#include "service/internal_call.h"
#include "wire/locks.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;

constexpr Duration kServerPatience = 8s;  // with one server
constexpr Duration kRoundPause = 300ms;   // until tables may say who has the rest
constexpr int kRounds = 10;

}  // namespace

// Sites move while they are asked for: each is asked for until a server says that it has it, and has done it.
Task<bool> free_locks(service::ServiceContext& context, IpAddress address, std::string host,
                      std::optional<std::int32_t> keep) {
  constexpr auto kSites = static_cast<std::size_t>(wire::Role::kDirectory);
  std::set<std::uint32_t> left;
  for (std::uint32_t site = 0; site < context.tables.get()->wire().sites[kSites].size(); ++site)
    left.insert(site);
  for (int round = 0; round < kRounds && !left.empty(); ++round) {
    if (round > 0) co_await context.loop.sleep(kRoundPause);
    const auto tables = context.tables.get();
    std::map<std::uint32_t, wire::FreeLocksArgs> asked;
    for (std::uint32_t site : left) {
      auto [at, first] = asked.try_emplace(tables->server_of(wire::Role::kDirectory, SiteId{site}).server);
      if (first) at->second = {.address = address, .host = host, .keep = keep, .sites = {}};
      at->second.sites.push_back(site);
    }
    for (auto& [server, args] : asked) {
      auto result = co_await service::internal_call<wire::FreeLocksResult>(
          context.channel, tables->server(server)->endpoint, wire::kLocksProgram, wire::LocksProcedure::kFree,
          args, kServerPatience);
      if (!result) continue;
      for (std::uint32_t site : result->freed) left.erase(site);
    }
  }
  const bool all = left.empty();
  co_return all;
}

}  // namespace slice::proxy
