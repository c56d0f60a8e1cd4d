#include "control/slicectl/render.h"
#include "control/slicectl/render_parts.h"

namespace slice::slicectl {
std::string render_backing(const routing::RoutingTables& tables, const wire::BackingSetsResult& backing,
                           Format format) {
  if (format == Format::kJson) {
    Json list = Json::array();
    for (const wire::BackingSet& each : backing.sets) {
      Json members = Json::array();
      for (std::uint32_t member : each.members) members.push_back(name_of(tables, member));
      list.push_back({{"server", name_of(tables, each.server)},
                      {"epoch", each.epoch.value},
                      {"copies", each.copies},
                      {"members", std::move(members)}});
    }
    return dump({{"sets", std::move(list)}});
  }
  if (backing.sets.empty()) return "no server has a backing set\n";
  std::vector<std::vector<std::string>> rows{{"SERVER", "EPOCH", "COPIES", "WANTED", "ON"}};
  for (const wire::BackingSet& each : backing.sets) {
    std::string on;
    for (std::uint32_t member : each.members) on += (on.empty() ? "" : ", ") + name_of(tables, member);
    rows.push_back({name_of(tables, each.server), std::to_string(each.epoch.value),
                    std::to_string(each.members.size()), std::to_string(each.copies), on});
  }
  return table(rows);
}

}  // namespace slice::slicectl
