#include "control/slicectl/render_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/config.h"
#include "control/slicectl/render.h"

namespace slice::slicectl {

std::string dump(const Json& json) {
  // Names and paths may hold bytes that are no UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string name_of(const routing::RoutingTables& tables, std::uint32_t server) {
  const wire::ServerEntry* entry = tables.server(server);
  return entry == nullptr ? fmt::format("server {}", server) : entry->name;
}

std::string_view role_text(wire::Role role) {
  return role_name(static_cast<ServerRole>(role));
}

std::string age_text(std::uint64_t milliseconds) {
  if (milliseconds > 86'400'000ull * 365) return "never";
  return milliseconds < 10'000 ? fmt::format("{}.{} s", milliseconds / 1000, milliseconds / 100 % 10)
                               : fmt::format("{} s", milliseconds / 1000);
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 7> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

void add_said(Json& json, const wire::ServerEntry& entry) {
  json["weight"] = entry.weight == 0 ? Json(nullptr) : Json(entry.weight);
  json["host"] = entry.host.empty() ? Json(nullptr) : Json(entry.host);
  json["rack"] = entry.rack.empty() ? Json(nullptr) : Json(entry.rack);
  json["drained"] = entry.drained;
  json["lost"] = entry.lost.value != 0;
}

std::string said_text(const wire::ServerEntry& entry) {
  std::string text;
  auto add = [&](const std::string& what) { text += (text.empty() ? "" : ", ") + what; };
  if (entry.drained) add(entry.lost.value != 0 ? "lost" : "drained");
  if (entry.weight != 0) add(fmt::format("weight {}", entry.weight));
  if (!entry.host.empty()) add("host " + entry.host);
  if (!entry.rack.empty()) add("rack " + entry.rack);
  return text;
}

std::string ranges_text(const std::vector<std::uint64_t>& numbers, std::size_t most) {
  std::string text;
  std::size_t shown = 0;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t j = i;
    while (j + 1 < numbers.size() && numbers[j + 1] == numbers[j] + 1) ++j;
    if (shown++ == most) return text + fmt::format(", ... ({} in all)", numbers.size());
    if (!text.empty()) text += ", ";
    text += i == j ? fmt::format("{}", numbers[i]) : fmt::format("{}-{}", numbers[i], numbers[j]);
    i = j + 1;
  }
  return text;
}

}  // namespace slice::slicectl
