#include "control/slicectl/render.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

#include "control/slicectl/render_parts.h"

namespace slice::slicectl {
namespace {

constexpr std::array<wire::Role, wire::kSiteClasses> kClasses{wire::Role::kDirectory, wire::Role::kSmallFile,
                                                              wire::Role::kStorage, wire::Role::kCoordinator};

// Without their line breaks.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string type_text(nfs3::FileType type) {
  constexpr std::array<const char*, 8> kNames{
      "?", "regular", "directory", "block device", "character device", "symlink", "socket", "fifo"};
  auto index = static_cast<std::size_t>(type);
  return index < kNames.size() ? kNames[index] : "?";
}

Json part_json(const Part& part) {
  Json json;
  json["server"] = part.server;
  if (part.site) json["site"] = part.site->value;
  if (!part.stat) {
    json["error"] = part.stat.error().message;
    json["allocated"] = nullptr;
    return json;
  }
  bool holds = part.stat->status == nfs3::Status::kOk;
  if (!holds && part.stat->status != nfs3::Status::kNoEnt)
    json["error"] = nfs3::status_name(part.stat->status);
  json["end"] = holds ? part.stat->end : 0;
  json["allocated"] = holds ? part.stat->allocated : 0;
  json["epoch"] = holds ? part.stat->epoch.value : 0;
  json["extents"] = Json::array();
  if (!holds) return json;
  for (const wire::ObjectExtent& extent : part.stat->extents) {
    json["extents"].push_back(
        {{"offset", extent.offset}, {"length", extent.length}, {"place", extent.place}});
  }
  return json;
}

std::string part_text(const Part& part) {
  if (!part.stat) return fmt::format("no answer: {}", part.stat.error().message);
  if (part.stat->status == nfs3::Status::kNoEnt) return "holds nothing";
  if (part.stat->status != nfs3::Status::kOk) return std::string(nfs3::status_name(part.stat->status));
  std::string text =
      fmt::format("{} allocated, ends at {}", bytes_text(part.stat->allocated), part.stat->end);
  std::size_t shown = 0;
  for (const wire::ObjectExtent& extent : part.stat->extents) {
    if (shown++ == 4) {
      text += fmt::format("; {} extents in all", part.stat->extents.size());
      break;
    }
    text += fmt::format("; {}+{} at {:#x}", extent.offset, extent.length, extent.place);
  }
  return text;
}

Json time_json(nfs3::Time time) {
  return fmt::format("{}.{:09}", time.seconds, time.nanoseconds);
}

}  // namespace

Json where_json(const EnsembleConfig& config, const Where& where) {
  const nfs3::Attributes& a = where.attributes;
  const routing::FileHandle& h = where.handle;
  Json json;
  json["path"] = where.path;
  json["type"] = type_text(h.type);
  json["size"] = a.size;
  json["used"] = a.used;
  json["mode"] = fmt::format("{:04o}", a.mode);
  json["uid"] = a.uid;
  json["gid"] = a.gid;
  json["nlink"] = a.nlink;
  json["mtime"] = time_json(a.mtime);
  json["ctime"] = time_json(a.ctime);
  json["handle"] = {{"bytes", to_hex(where.bytes)},
                    {"fileid", fmt::format("{:#018x}", h.fileid.value)},
                    {"tree", h.tree.value},
                    {"directory_site", h.directory_site.value},
                    {"generation", h.generation},
                    {"flags", h.flags},
                    {"stripe_unit", std::uint64_t{1} << h.stripe_shift},
                    {"cell_key", fmt::format("{:#018x}", h.cell_key)}};
  json["name"] = {{"site", where.name_site.value}, {"server", where.name_server}};
  json["directory"] = {{"site", h.directory_site.value}, {"server", where.directory_server}};
  if (h.type != nfs3::FileType::kRegular) return json;
  json["epoch"] = a.rdev_major;
  json["threshold"] = config.volume.threshold;
  json["coordinator"] = {{"site", where.coordinator_site.value}, {"server", where.coordinator}};
  json["small_file"] = where.small_file ? part_json(*where.small_file) : Json();
  json["storage"] = Json::array();
  for (const Part& part : where.storage) {
    Json entry = part_json(part);
    entry["stripes"] = part.stripes;
    json["storage"].push_back(std::move(entry));
  }
  if (where.map_error) json["map_error"] = where.map_error->message;
  return json;
}

std::string render_servers(const EnsembleConfig& config, const routing::RoutingTables& tables,
                           Format format) {
  Json json = Json::array();
  std::vector<std::vector<std::string>> rows{{"INDEX", "NAME", "ROLE", "ENDPOINT", "SITES", "DATA"}};
  for (const wire::ServerEntry& server : tables.wire().servers) {
    if (server.role == wire::Role::kRemoved) continue;
    const std::size_t sites = wire::sites_of(tables.wire(), server.name).size();
    const bool has_sites = static_cast<std::size_t>(server.role) < wire::kSiteClasses;
    const ServerConfig* known = config.find(server.name);
    std::string data = known == nullptr ? "" : known->data;
    json.push_back({{"index", server.server},
                    {"name", server.name},
                    {"role", role_text(server.role)},
                    {"endpoint", rpc::to_string(server.endpoint)},
                    {"sites", sites},
                    {"data", data}});
    add_said(json.back(), server);
    rows.push_back({fmt::format("{}", server.server), server.name, std::string(role_text(server.role)),
                    rpc::to_string(server.endpoint), has_sites ? fmt::format("{}", sites) : "-",
                    data.empty() ? "-" : data});
  }
  if (format == Format::kText) return table(rows);
  return dump({{"generation", tables.generation().value}, {"servers", std::move(json)}});
}

std::string render_reload(const wire::ReloadResult& reload, Format format) {
  if (format == Format::kJson) {
    return dump({{"settings", reload.generation.value},
                 {"changed", reload.changed},
                 {"warnings", reload.warnings},
                 {"late", reload.late}});
  }
  std::string text;
  for (const std::string& warning : reload.warnings) text += fmt::format("warning: {}\n", warning);
  for (const std::string& name : reload.late) {
    text += fmt::format("warning: {} does not have them yet (slicectl status)\n", name);
  }
  if (reload.changed.empty()) {
    return text +
           fmt::format("nothing was changed: settings {} are what the file says\n", reload.generation.value);
  }
  return text + fmt::format("settings {} are in force; changed: {}\n", reload.generation.value,
                            fmt::join(reload.changed, ", "));
}

std::string render_change(const wire::ChangeServerResult& change, Format format) {
  const wire::ServerEntry& entry = change.entry;
  const bool removed = entry.role == wire::Role::kRemoved;
  if (format == Format::kText && removed) {
    return fmt::format("{}, which was server {}, is no member any more; generation {}\n", entry.name,
                       entry.server, change.generation.value);
  }
  if (format == Format::kText) {
    const std::string said = said_text(entry);
    return fmt::format("{} is {} {}, at {}{}; generation {}\n", entry.name, role_text(entry.role),
                       entry.server, rpc::to_string(entry.endpoint), said.empty() ? "" : ", " + said,
                       change.generation.value);
  }
  Json json{{"name", entry.name},
            {"index", entry.server},
            {"role", role_text(entry.role)},
            {"endpoint", removed ? Json(nullptr) : Json(rpc::to_string(entry.endpoint))},
            {"generation", change.generation.value}};
  add_said(json, entry);
  return dump(json);
}

std::string render_comparison(Generation generation, const std::vector<ComparedProcess>& processes,
                              Format format) {
  const bool same = overall(processes) == Agreement::kSame;
  Json json{{"generation", generation.value}, {"same", same}, {"processes", Json::array()}};
  std::vector<std::vector<std::string>> rows{{"NAME", "ROLE", "SITES", "TABLES", "GENERATION", "RECORD"}};
  for (const ComparedProcess& process : processes) {
    const bool has_sites = process.record != Agreement::kNotApplicable;
    json["processes"].push_back({{"name", process.name},
                                 {"role", role_text(process.role)},
                                 {"sites", process.sites},
                                 {"tables", agreement_text(process.tables)},
                                 {"generation", process.generation.value},
                                 {"record", agreement_text(process.record)}});
    rows.push_back({process.name, std::string(role_text(process.role)),
                    has_sites ? fmt::format("{}", process.sites) : "-",
                    std::string(agreement_text(process.tables)), fmt::format("{}", process.generation.value),
                    std::string(agreement_text(process.record))});
  }
  if (format == Format::kJson) return dump(json);
  return fmt::format("generation {}: {}\n\n{}", generation.value,
                     same ? "everybody goes by these tables, and records agree" : "NOT everybody agrees",
                     table(rows));
}

std::string render_tables(const routing::RoutingTables& tables, bool every_site, Format format) {
  Json json{{"generation", tables.generation().value},
            {"classes", Json::object()},
            {"servers", Json::array()},
            {"removed", Json::array()}};
  for (const wire::ServerEntry& server : tables.wire().servers) {
    const bool removed = server.role == wire::Role::kRemoved;
    Json entry{{"index", server.server}, {"name", server.name}};
    if (!removed) {
      entry["role"] = role_text(server.role);
      entry["endpoint"] = rpc::to_string(server.endpoint);
      add_said(entry, server);
    }
    json[removed ? "removed" : "servers"].push_back(std::move(entry));
  }
  std::string text = fmt::format("generation {}\n\n", tables.generation().value);
  std::vector<std::vector<std::string>> rows{{"CLASS", every_site ? "SITE" : "SITES", "SERVER"}};
  for (wire::Role role : kClasses) {
    std::string name(role_text(role));
    const auto& sites = tables.wire().sites[static_cast<std::size_t>(role)];
    Json names = Json::array();
    std::map<std::uint32_t, std::size_t> count;
    for (std::size_t site = 0; site < sites.size(); ++site) {
      const std::string& server = tables.server(sites[site])->name;
      names.push_back(server);
      ++count[sites[site]];
      if (every_site) rows.push_back({name, fmt::format("{}", site), server});
    }
    json["classes"][name] = std::move(names);
    if (every_site) continue;
    for (const auto& [server, held] : count) {
      rows.push_back({name, fmt::format("{} of {}", held, sites.size()), tables.server(server)->name});
    }
  }
  if (!tables.wire().layout_sites.empty()) {
    for (std::uint32_t owner : tables.wire().layout_sites)
      json["layout_sites"].push_back(tables.server(owner)->name);
    text += "mirrored and block-mapped files have storage sites elsewhere (--json: layout_sites)\n\n";
  }
  return format == Format::kJson ? dump(json) : text + table(rows);
}

std::string render_metrics(const std::vector<ProcessMetrics>& processes, std::string_view match,
                           Format format) {
  Json json = Json::array();
  std::string text;
  for (const ProcessMetrics& process : processes) {
    Json entry{{"process", process.name}};
    if (!process.metrics) {
      entry["error"] = process.metrics.error().message;
      json.push_back(std::move(entry));
      continue;
    }
    entry["metrics"] = Json::object();
    std::string head;  // HELP and TYPE of a family of which no sample was shown yet
    for (std::string_view line : lines_of(process.metrics->text)) {
      if (line.starts_with("# HELP ")) head.clear();
      if (line.starts_with('#')) {
        head += fmt::format("{}\n", line);
        continue;
      }
      const std::size_t space = line.rfind(' ');
      const std::string_view name = line.substr(0, space);
      if (space == std::string_view::npos || name.find(match) == std::string_view::npos) continue;
      entry["metrics"][std::string(name)] = Json::parse(line.substr(space + 1), nullptr, false);
      text += processes.size() == 1 ? std::exchange(head, "") : process.name + " ";
      text += fmt::format("{}\n", line);
    }
    json.push_back(std::move(entry));
  }
  return format == Format::kJson ? dump({{"processes", std::move(json)}}) : text;
}

std::string render_where(const EnsembleConfig& config, const Where& where, Format format) {
  if (format == Format::kJson) return dump(where_json(config, where));
  const nfs3::Attributes& a = where.attributes;
  const routing::FileHandle& h = where.handle;
  std::vector<std::vector<std::string>> rows;
  rows.push_back({"type", fmt::format("{}, mode {:04o}, uid {}, gid {}, {} links", type_text(h.type), a.mode,
                                      a.uid, a.gid, a.nlink)});
  rows.push_back({"size", fmt::format("{} bytes, {} used", a.size, a.used)});
  rows.push_back({"handle", fmt::format("fileID {:#x}, generation {}, cell key {:#x}, flags {:#x}",
                                        h.fileid.value, h.generation, h.cell_key, h.flags)});
  rows.push_back({"", to_hex(where.bytes)});
  if (h.tree != TreeId{}) rows.push_back({"tree", fmt::format("{} (slicectl tree list)", h.tree.value)});
  rows.push_back({"name", fmt::format("directory site {} on {}", where.name_site.value, where.name_server)});
  rows.push_back(
      {"attributes", fmt::format("directory site {} on {}", h.directory_site.value, where.directory_server)});
  if (h.type == nfs3::FileType::kRegular) {
    rows.push_back(
        {"coordinator", fmt::format("site {} on {}", where.coordinator_site.value, where.coordinator)});
    if (where.small_file) {
      rows.push_back({"small-file", fmt::format("bytes below {}: site {} on {}: {}", config.volume.threshold,
                                                where.small_file->site->value, where.small_file->server,
                                                part_text(*where.small_file))});
    }
    for (const Part& part : where.storage) {
      std::string stripes = part.stripes.empty() ? "no stripes" : "stripes " + ranges_text(part.stripes, 12);
      rows.push_back({"storage", fmt::format("{}: {}; {}", part.server, part_text(part), stripes)});
    }
    if (where.map_error) rows.push_back({"block map", where.map_error->message});
  }
  return where.path + "\n" + table(rows);
}

namespace {

// Of a proxy; empty where none puts the virtual address anywhere by itself.
std::string some_address_interface(const EnsembleConfig& config) {
  for (const ServerConfig& server : config.servers) {
    if (server.role != ServerRole::kProxy) continue;
    if (const std::string& interface = config.address_interface_of(server); !interface.empty())
      return interface;
  }
  return "";
}

}  // namespace

std::string render_check(const EnsembleConfig& config, Format format) {
  std::map<std::string, std::size_t> roles;
  for (const ServerConfig& server : config.servers)
    if (server.role != ServerRole::kRemoved) ++roles[std::string(role_name(server.role))];
  if (format == Format::kJson) {
    return dump({{"file", config.path},
                 {"ensemble", config.name},
                 {"virtual_address", config.proxy.addresses_text()},
                 {"address_interface", some_address_interface(config)},
                 {"roles", roles},
                 {"warnings", config.warnings}});
  }
  const std::size_t warnings = config.warnings.size();
  std::string text =
      fmt::format("{}: good: ensemble {}, {} servers{}\n", config.path, config.name, config.servers.size(),
                  warnings == 0 ? "" : fmt::format(", {} warning{}", warnings, warnings == 1 ? "" : "s"));
  for (const std::string& warning : config.warnings) text += fmt::format("warning: {}\n", warning);
  return text;
}

std::string render_policy(const EnsembleConfig& config, const std::string& path,
                          const wire::FilePolicy& policy, Format format) {
  std::uint32_t shift = policy.stripe_shift != 0 ? policy.stripe_shift : config.volume.stripe_shift;
  std::uint32_t copies = policy.copies != 0 ? policy.copies : config.volume.copies;
  std::string_view placement =
      kPlacementNames[policy.placement != 0 ? policy.placement - 1
                                            : static_cast<std::size_t>(config.volume.placement)];
  if (format == Format::kJson) {
    nlohmann::json json{{"path", path},
                        {"stripe_unit", std::uint64_t{1} << shift},
                        {"stripe_unit_from", policy.stripe_shift != 0 ? "directory" : "volume"},
                        {"copies", copies},
                        {"copies_from", policy.copies != 0 ? "directory" : "volume"},
                        {"placement", placement},
                        {"placement_from", policy.placement != 0 ? "directory" : "volume"}};
    return json.dump(1) + "\n";
  }
  auto from = [](std::uint32_t own) { return own != 0 ? "the directory's" : "the volume's"; };
  return fmt::format("new files in {}: stripe unit {} KiB ({}), {} {} ({}), placed by {} ({})\n", path,
                     (std::uint64_t{1} << shift) >> 10, from(policy.stripe_shift), copies,
                     copies == 1 ? "copy" : "copies", from(policy.copies), placement, from(policy.placement));
}

}  // namespace slice::slicectl
