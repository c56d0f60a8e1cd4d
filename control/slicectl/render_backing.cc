#include "control/slicectl/render.h"
#include "control/slicectl/render_parts.h"

namespace slice::slicectl {

std::string render_backing(const routing::RoutingTables& tables, const wire::BackingSetsResult& backing,
                           const wire::StandbysResult& standbys, Format format) {
  if (format == Format::kJson) {
    Json list = Json::array();
    for (const wire::BackingSet& each : backing.sets) {
      Json members = Json::array(), waiting = Json::array();
      for (std::uint32_t member : each.members) members.push_back(name_of(tables, member));
      for (const wire::Standby& standby : standbys.standbys) {
        if (standby.server == each.server)
          waiting.push_back({{"endpoint", rpc::to_string(standby.endpoint)}, {"age_ms", standby.age_ms}});
      }
      list.push_back({{"server", name_of(tables, each.server)},
                      {"epoch", each.epoch.value},
                      {"copies", each.copies},
                      {"members", std::move(members)},
                      {"standbys", std::move(waiting)}});
    }
    return dump({{"sets", std::move(list)}});
  }
  if (backing.sets.empty()) return "no server has a backing set\n";
  std::vector<std::vector<std::string>> rows{{"SERVER", "EPOCH", "COPIES", "WANTED", "ON", "STANDS BY"}};
  for (const wire::BackingSet& each : backing.sets) {
    std::string on, waiting;
    for (std::uint32_t member : each.members) on += (on.empty() ? "" : ", ") + name_of(tables, member);
    for (const wire::Standby& standby : standbys.standbys) {
      if (standby.server == each.server)
        waiting += (waiting.empty() ? "" : ", ") + address_text(standby.endpoint.address);
    }
    rows.push_back({name_of(tables, each.server), std::to_string(each.epoch.value),
                    std::to_string(each.members.size()), std::to_string(each.copies), on,
                    waiting.empty() ? "-" : waiting});
  }
  return table(rows);
}

std::string render_failover(const std::string& server, const wire::FailoverResult& done, bool serves,
                            Format format) {
  if (format == Format::kJson)
    return dump({{"server", server},
                 {"endpoint", rpc::to_string(done.serves)},
                 {"generation", done.generation.value},
                 {"serves", serves}});
  return fmt::format("{} {} at {}; generation {}\n", server, serves ? "serves" : "is to serve",
                     rpc::to_string(done.serves), done.generation.value);
}

}  // namespace slice::slicectl
