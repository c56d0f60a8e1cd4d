#include "control/manager/records.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace slice::manager {

Records::Said& Records::said(std::uint32_t server) {
  if (server >= said_.size()) said_.resize(members_.size());
  return said_.at(server);
}

void Records::heard(std::uint32_t server, std::uint64_t digest) {
  Said& of = said(server);
  if (of.digest != digest) of = {.digest = digest, .sites = {}, .version = of.version};
}

void Records::forget(std::uint32_t server) {
  if (server < said_.size()) said_[server] = {};
}

Status Records::claimed(const wire::ClaimArgs& args) {
  if (args.server >= members_.size() || !args.has_record) return fail(Errc::kInvalid, "from nobody known");
  const wire::ServerEntry& server = members_[args.server];
  const auto site_class = static_cast<std::size_t>(server.role);
  if (site_class >= wire::kSiteClasses)
    return fail(Errc::kInvalid, "a {} has no sites", role_name(server.role));
  const std::uint32_t count = config_.site_counts[site_class];
  const std::vector<std::uint32_t> sites = wire::numbers_of(args.sites);
  if (!sites.empty() && sites.back() >= count) {
    return fail(Errc::kInvalid, "its record has site {} of {}", sites.back(), count);
  }
  if (args.version < said(args.server).version) return {};
  for (const wire::OwnedSite& each : args.sites) newest_ = std::max(newest_, each.since);
  const std::uint64_t digest = wire::digest(sites);
  for (std::uint32_t site : args.layout_sites) {
    if (server.role != wire::Role::kStorage || site >= count)
      return fail(Errc::kInvalid, "its record has files with a layout on site {}", site);
  }
  said(args.server) = {
      .digest = digest, .sites = args.sites, .layout_sites = args.layout_sites, .version = args.version};
  return {};
}

bool Records::any() const {
  return std::any_of(said_.begin(), said_.end(), [](const Said& said) { return said.digest != 0; });
}

bool Records::wants(std::uint32_t server) const {
  return server < said_.size() && said_[server].digest != 0 && !said_[server].sites;
}

std::string Records::wanted() const {
  std::string names;
  for (std::uint32_t i = 0; i < said_.size(); ++i) {
    if (wants(i)) names += (names.empty() ? "" : ", ") + members_[i].name;
  }
  return names;
}

template <class Each>
void Records::for_each(const Each& each) const {
  for (std::uint32_t i = 0; i < said_.size(); ++i) {
    if (!said_[i].sites) continue;
    for (const wire::OwnedSite& site : *said_[i].sites)
      each(static_cast<std::size_t>(members_[i].role), site, i);
  }
}

void Records::moved(const wire::SiteMove& move, Generation since) {
  auto change = [&](std::uint32_t server, const auto& how) {
    Said& of = said(server);
    if (!of.sites) return;
    how(*of.sites);
    std::sort(of.sites->begin(), of.sites->end());
    of.digest = wire::digest(wire::numbers_of(*of.sites));
  };
  auto among = [&](const wire::OwnedSite& each) { return move.has(each.site); };
  change(move.from, [&](std::vector<wire::OwnedSite>& sites) { std::erase_if(sites, among); });
  change(move.to, [&](std::vector<wire::OwnedSite>& sites) {
    std::erase_if(sites, among);
    for (std::uint32_t site : move.sites) sites.push_back({site, since});
  });
}

Result<wire::Tables> Records::applied_to(wire::Tables tables) const {
  struct Claim {
    std::uint32_t server = 0;
    Generation since;
  };
  std::vector<std::optional<Claim>> claims[wire::kSiteClasses];
  for (std::size_t c = 0; c < wire::kSiteClasses; ++c) claims[c].resize(config_.site_counts[c]);
  std::string twice;
  for_each([&](std::size_t c, const wire::OwnedSite& site, std::uint32_t server) {
    std::optional<Claim>& claim = claims[c][site.site];
    if (claim && claim->since == site.since && twice.empty()) {
      twice = fmt::format("both {} and {} have a record of {} site {}", members_[claim->server].name,
                          members_[server].name, wire::role_name(static_cast<wire::Role>(c)), site.site);
    }
    if (!claim || claim->since < site.since) claim = {server, site.since};
  });
  if (!twice.empty()) return fail(Errc::kInvalid, "{}", twice);
  const wire::Tables before = tables;
  wire::keep_layout_sites(tables);
  for (std::size_t c = 0; c < wire::kSiteClasses; ++c) {
    for (std::size_t site = 0; site < std::min(claims[c].size(), tables.sites[c].size()); ++site) {
      if (claims[c][site]) tables.sites[c][site] = claims[c][site]->server;
    }
  }
  std::vector<bool> claimed(tables.layout_sites.size());
  for (std::uint32_t i = 0; i < said_.size(); ++i) {
    for (std::uint32_t site : said_[i].layout_sites) {
      if (claimed.at(site)) {
        return fail(Errc::kInvalid, "both {} and another server have files with a layout on site {}",
                    members_[i].name, site);
      }
      claimed[site] = true;
      tables.layout_sites[site] = i;
    }
  }
  if (tables.layout_sites == tables.sites[static_cast<std::size_t>(wire::Role::kStorage)])
    tables.layout_sites.clear();
  if (wire::digest(tables) != wire::digest(before)) ++tables.generation.value;
  return tables;
}

bool Records::note_started(wire::Tables& tables) const {
  bool changed = false;
  for (std::size_t i = 0; i < std::min(said_.size(), tables.servers.size()); ++i) {
    wire::ServerEntry& server = tables.servers[i];
    const bool came_later =
        server.role == wire::Role::kStorage && wire::layout_sites_of(tables, server.name).empty();
    if (!said_[i].sites || !came_later || server.started) continue;
    server.started = changed = true;
  }
  if (changed) ++tables.generation.value;
  return changed;
}

std::string Records::unclaimed() const {
  std::vector<bool> claimed[wire::kSiteClasses];
  for (std::size_t c = 0; c < wire::kSiteClasses; ++c) claimed[c].resize(config_.site_counts[c]);
  for_each([&](std::size_t c, const wire::OwnedSite& site, std::uint32_t) { claimed[c][site.site] = true; });
  std::vector<bool>& storage = claimed[static_cast<std::size_t>(wire::Role::kStorage)];
  std::vector<bool> layouts(storage.size());
  for (const Said& each : said_) {
    for (std::uint32_t site : each.layout_sites) layouts[site] = true;
  }
  // Who claims the one says the other as well: a site that nobody says for files with a layout is lost, too.
  for (std::size_t site = 0; site < storage.size(); ++site) storage[site] = storage[site] && layouts[site];
  std::string text;
  for (std::size_t c = 0; c < wire::kSiteClasses; ++c) {
    if (auto count = std::count(claimed[c].begin(), claimed[c].end(), false); count > 0) {
      text += fmt::format("{}{} {} sites", text.empty() ? "" : ", ", count,
                          wire::role_name(static_cast<wire::Role>(c)));
    }
  }
  return text;
}

std::string Records::missing(const wire::Tables& tables) const {
  std::string text;
  for (std::uint32_t i = 0; i < said_.size(); ++i) {
    if (!said_[i].sites) continue;
    const std::vector<std::uint32_t> by_tables = wire::sites_of(tables, members_[i].name),
                                     said = wire::numbers_of(*said_[i].sites);
    std::vector<std::uint32_t> not_there;
    std::set_difference(by_tables.begin(), by_tables.end(), said.begin(), said.end(),
                        std::back_inserter(not_there));
    if (not_there.empty()) continue;
    text += fmt::format("{}{} has no record of {} of its sites, the first is {}", text.empty() ? "" : "; ",
                        members_[i].name, not_there.size(), not_there.front());
  }
  return text;
}

}  // namespace slice::manager
