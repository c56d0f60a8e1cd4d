#include "control/slicectl/top.h"

#include <algorithm>
#include <tuple>

#include "control/slicectl/render_parts.h"
#include "control/slicectl/trace_render.h"
#include "wire/nfs3.h"

namespace slice::slicectl {
namespace {

using Entries = std::vector<wire::TopEntry>;

// What came since the first sample; where that does not have the key, all of it did.
wire::TopEntry since(const Entries& first, const wire::TopEntry& now) {
  auto before = std::find_if(first.begin(), first.end(),
                             [&](const wire::TopEntry& each) { return each.key == now.key; });
  if (before == first.end()) return now;
  auto more = [](auto a, auto b) { return a > b ? a - b : decltype(a){}; };
  wire::TopEntry entry = now;
  entry.calls = more(now.calls, before->calls);
  entry.received = more(now.received, before->received);
  entry.sent = more(now.sent, before->sent);
  entry.took = more(now.took, before->took);
  // Of a key that had room all the time, all that came since is its own.
  entry.others = more(now.others, before->others);
  return entry;
}

void add_to(wire::TopEntry& sum, const wire::TopEntry& entry) {
  sum.calls += entry.calls;
  sum.received += entry.received;
  sum.sent += entry.sent;
  sum.took += entry.took;
  sum.slowest = std::max(sum.slowest, entry.slowest);
  sum.others += entry.others;
}

Load load_of(std::string who, const wire::TopEntry& sum, double seconds) {
  Load load{.who = std::move(who),
            .calls = static_cast<double>(sum.calls) / seconds,
            .received = static_cast<double>(sum.received) / seconds,
            .sent = static_cast<double>(sum.sent) / seconds,
            .slowest = sum.slowest,
            .about = sum.others > 0};
  const std::uint64_t own = sum.calls > sum.others ? sum.calls - sum.others : 1;
  load.mean = sum.took / static_cast<std::int64_t>(own);
  return load;
}

void sort_loads(std::vector<Load>& loads) {
  std::erase_if(loads, [](const Load& load) { return load.calls <= 0; });
  std::sort(loads.begin(), loads.end(),
            [](const Load& a, const Load& b) { return std::tie(b.calls, a.who) < std::tie(a.calls, b.who); });
}

// Of one list of all servers.
std::vector<Load> merged(const TopSample& first, const TopSample& second, Entries wire::TopResult::* list,
                         double seconds, std::string (*name)(const wire::TopKey&)) {
  std::map<wire::TopKey, wire::TopEntry> sums;
  for (const auto& [server, result] : second) {
    auto before = first.find(server);
    if (before == first.end()) continue;
    for (const wire::TopEntry& entry : result.*list)
      add_to(sums[entry.key], since(before->second.*list, entry));
  }
  std::vector<Load> loads;
  for (const auto& [key, sum] : sums) loads.push_back(load_of(name(key), sum, seconds));
  sort_loads(loads);
  return loads;
}

std::string client_name(const wire::TopKey& key) {
  return address_text(key.client);
}
std::string file_name(const wire::TopKey& key) {
  return fmt::format("{:#x}", key.number);
}
std::string procedure_text(const wire::TopKey& key) {
  return std::string(
      nfs3::procedure_name(static_cast<std::uint32_t>(std::min<std::uint64_t>(key.number, UINT32_MAX))));
}

void append_table(std::string& text, const char* title, const std::vector<Load>& loads, std::size_t rows) {
  std::vector<std::vector<std::string>> cells{{title, "CALLS/S", "IN/S", "OUT/S", "MEAN", "SLOWEST"}};
  for (const Load& load : loads) {
    if (cells.size() > rows) break;
    cells.push_back({load.who, fmt::format("{}{:.1f}", load.about ? "~" : "", load.calls),
                     bytes_text(static_cast<std::uint64_t>(load.received)),
                     bytes_text(static_cast<std::uint64_t>(load.sent)),
                     fmt::format("{:.2f} ms", milliseconds(load.mean)),
                     fmt::format("{:.2f} ms", milliseconds(load.slowest))});
  }
  text += (text.empty() ? "" : "\n") + table(cells);
}

Json loads_json(const char* key, const std::vector<Load>& loads, std::size_t rows) {
  Json json = Json::array();
  for (std::size_t i = 0; i < loads.size() && i < rows; ++i) {
    const Load& load = loads[i];
    json.push_back({{key, load.who},
                    {"calls_per_second", load.calls},
                    {"received_per_second", load.received},
                    {"sent_per_second", load.sent},
                    {"mean_milliseconds", milliseconds(load.mean)},
                    {"slowest_milliseconds", milliseconds(load.slowest)},
                    {"about", load.about}});
  }
  return json;
}

}  // namespace

Loads loads_between(const TopSample& first, const TopSample& second, Duration between) {
  const double seconds = std::max(std::chrono::duration<double>(between).count(), 1e-3);
  Loads loads{.servers = {},
              .operations = merged(first, second, &wire::TopResult::procedures, seconds, procedure_text),
              .clients = merged(first, second, &wire::TopResult::clients, seconds, client_name),
              .files = merged(first, second, &wire::TopResult::files, seconds, file_name)};
  for (const auto& [server, result] : second) {
    auto before = first.find(server);
    if (before == first.end()) continue;
    wire::TopEntry sum;
    for (const wire::TopEntry& entry : result.procedures)
      add_to(sum, since(before->second.procedures, entry));
    loads.servers.push_back(load_of(server, sum, seconds));
  }
  sort_loads(loads.servers);
  return loads;
}

std::string render_top(const Loads& loads, TopTables tables, std::size_t rows,
                       const std::vector<std::string>& silent, Format format) {
  struct Table {
    bool shown;
    const char *title, *name, *key;
    const std::vector<Load>& loads;
  };
  const Table all[] = {{tables.servers, "SERVER", "servers", "server", loads.servers},
                       {tables.operations, "OPERATION", "operations", "operation", loads.operations},
                       {tables.clients, "CLIENT", "clients", "client", loads.clients},
                       {tables.files, "FILE", "files", "fileid", loads.files}};
  if (format == Format::kText) {
    std::string text;
    for (const Table& each : all) {
      if (each.shown) append_table(text, each.title, each.loads, rows);
    }
    return text;
  }
  Json json;
  for (const Table& each : all) {
    if (each.shown) json[each.name] = loads_json(each.key, each.loads, rows);
  }
  json["silent"] = silent;
  return dump(json);
}

}  // namespace slice::slicectl
