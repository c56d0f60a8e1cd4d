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
  if (said(server).digest != digest) said(server) = {.digest = digest, .sites = {}};
}

Status Records::claimed(const wire::ClaimArgs& args) {
  if (args.server >= members_.size() || !args.has_record) return fail(Errc::kInvalid, "from nobody known");
  const wire::ServerEntry& server = members_[args.server];
  const auto site_class = static_cast<std::size_t>(server.role);
  if (site_class >= wire::kSiteClasses)
    return fail(Errc::kInvalid, "a {} has no sites", role_name(server.role));
  const std::uint32_t count = config_.site_counts[site_class];
  std::vector<std::uint32_t> sites = wire::numbers_of(args.sites);
  if (!sites.empty() && sites.back() >= count) {
    return fail(Errc::kInvalid, "its record has site {} of {}", sites.back(), count);
  }
  for (const wire::OwnedSite& each : args.sites) newest_ = std::max(newest_, each.since);
  const std::uint64_t digest = wire::digest(sites);
  said(args.server) = {.digest = digest, .sites = std::move(sites)};
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
    for (std::uint32_t site : *said_[i].sites) each(static_cast<std::size_t>(members_[i].role), site, i);
  }
}

Result<wire::Tables> Records::applied_to(wire::Tables tables) const {
  std::vector<std::optional<std::uint32_t>> claimants[wire::kSiteClasses];
  for (std::size_t c = 0; c < wire::kSiteClasses; ++c) claimants[c].resize(config_.site_counts[c]);
  std::string twice;
  bool changed = false;
  for_each([&](std::size_t c, std::uint32_t site, std::uint32_t server) {
    std::optional<std::uint32_t>& claimant = claimants[c][site];
    if (claimant && twice.empty()) {
      twice = fmt::format("both {} and {} have a record of {} site {}", members_[*claimant].name,
                          members_[server].name, wire::role_name(static_cast<wire::Role>(c)), site);
    }
    claimant = server;
    if (site < tables.sites[c].size() && std::exchange(tables.sites[c][site], server) != server)
      changed = true;
  });
  if (!twice.empty()) return fail(Errc::kInvalid, "{}", twice);
  if (changed) ++tables.generation.value;
  return tables;
}

std::string Records::unclaimed() const {
  std::vector<bool> claimed[wire::kSiteClasses];
  for (std::size_t c = 0; c < wire::kSiteClasses; ++c) claimed[c].resize(config_.site_counts[c]);
  for_each([&](std::size_t c, std::uint32_t site, std::uint32_t) { claimed[c][site] = true; });
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
    const std::vector<std::uint32_t> by_tables = wire::sites_of(tables, members_[i].name);
    std::vector<std::uint32_t> not_there;
    std::set_difference(by_tables.begin(), by_tables.end(), said_[i].sites->begin(), said_[i].sites->end(),
                        std::back_inserter(not_there));
    if (not_there.empty()) continue;
    text += fmt::format("{}{} has no record of {} of its sites, the first is {}", text.empty() ? "" : "; ",
                        members_[i].name, not_there.size(), not_there.front());
  }
  return text;
}

}  // namespace slice::manager
