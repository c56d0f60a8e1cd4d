#include "dirserver/across/names_page.h"

#include <algorithm>

#include "dirserver/across/name_space.h"

namespace slice::dirserver {

using NfsStatus = nfs3::Status;

namespace {

using wire::ListedName;

// What an entry takes beside its name.
constexpr std::uint32_t kNameCost = 24, kAttributesCost = 88 + 64;

// Names, and the cell that is still to be read for each.
struct Collected {
  NamesPage page;
  std::vector<CellRef> targets;
};

class Collector {
 public:
  Collector(NameSpace& names, const CellRef& directory, PageLimits limits)
      : names_(names), directory_(directory), limits_(limits) {}

  Answer<Collected> run(const Cookie& after) {
    for (SiteId site : names_.placement.name_sites(directory_, after.site)) {
      if (!names_.cells.owns(site)) continue;
      collected_.page.sites.add(site);
      auto ended = add_site(site, site == after.site ? after : Cookie{.site = site});
      if (!ended) return refuse(ended.error());
      if (!*ended) return std::move(collected_);
    }
    collected_.page.end = true;
    return std::move(collected_);
  }

 private:
  Result<bool> add_site(SiteId site, const Cookie& after) {
    return names_.cells.each_name(site, directory_.fileid, after.position,
                                  [&](Position position, const NameEntry& entry) {
                                    Cookie cookie{site, position, entry.slot};
                                    return cookie <= after || add(cookie, entry);
                                  });
  }

  bool add(const Cookie& cookie, const NameEntry& entry) {
    used_ += kNameCost + static_cast<std::uint32_t>(entry.name.size()) +
             (limits_.attributes ? kAttributesCost : 0);
    if (used_ > limits_.bytes && !collected_.targets.empty()) return false;
    collected_.page.names.push_back({.file = entry.target.cell.fileid,
                                     .name = entry.name,
                                     .cookie = encode_cookie(cookie),
                                     .handle = {},
                                     .attributes = {}});
    collected_.targets.push_back(entry.target.cell);
    return true;
  }

  NameSpace& names_;
  CellRef directory_;
  PageLimits limits_;
  std::uint32_t used_ = 0;
  Collected collected_;
};

void describe(const NameSpace& names, const AttributeCell& cell, ListedName& listed) {
  listed.attributes = names.attributes(cell);
  listed.handle = as_text(names.mint(cell.self));
}

// One that cannot be read is listed without attributes: the client's own look-up shows the error.
Task<bool> describe_far(const NameSpace& names, Peers& peers, CellRef target, ListedName& listed) {
  auto cell = co_await peers.read(target, false);
  if (cell && *cell) describe(names, **cell, listed);
  co_return true;
}

Task<void> describe_all(NameSpace& names, Peers& peers, Collected& collected, storage::LogPosition& shown) {
  names.cells.prefetch(collected.targets);
  std::vector<Task<bool>> far;
  for (std::size_t i = 0; i < collected.targets.size(); ++i) {
    const CellRef& target = collected.targets[i];
    ListedName& listed = collected.page.names[i];
    if (!names.cells.owns(target.site)) {
      far.push_back(describe_far(names, peers, target, listed));
      continue;
    }
    if (names.held.stops_reading({target.fileid, {}})) continue;
    auto cell = names.cells.attributes(target);
    if (!cell || *cell == nullptr) continue;
    describe(names, **cell, listed);
    shown = std::max(shown, names.cells.pending(target.fileid));
  }
  if (!far.empty()) co_await all(std::move(far));
}

std::uint64_t last_cookie(const std::vector<ListedName>& names) {
  return names.empty() ? 0 : names.back().cookie;
}

// What of several pages is complete: names up to where the first of them broke off. Nothing where one of the
// sites from `first` on was looked at by nobody: it moved between the answers.
std::optional<NamesPage> merge(std::vector<NamesPage> pages, SiteId first, std::uint32_t sites) {
  NamesPage merged{.end = true, .sites = {}, .names = {}};
  std::uint64_t complete = ~std::uint64_t{0};
  for (NamesPage& page : pages) {
    if (!page.end) complete = std::min(complete, last_cookie(page.names));
    merged.end = merged.end && page.end;
    merged.sites.add(page.sites);
    std::move(page.names.begin(), page.names.end(), std::back_inserter(merged.names));
  }
  const std::uint32_t behind = merged.end ? sites : decode_cookie(complete).site.value + 1;
  for (SiteId site = first; site.value < behind; ++site.value) {
    if (!merged.sites.contains(site)) return std::nullopt;
  }
  std::erase_if(merged.names, [&](const ListedName& each) { return each.cookie > complete; });
  std::sort(merged.names.begin(), merged.names.end(),
            [](const ListedName& a, const ListedName& b) { return a.cookie < b.cookie; });
  // Of a site that moved meanwhile both servers may have told.
  auto twice = std::unique(merged.names.begin(), merged.names.end(),
                           [](const ListedName& a, const ListedName& b) { return a.cookie == b.cookie; });
  merged.names.erase(twice, merged.names.end());
  return merged;
}

}  // namespace

Task<Answer<NamesPage>> NameSpace::list_here(CellRef directory, Cookie after, PageLimits limits,
                                             storage::LogPosition& shown) {
  while (held.stops_listing(directory.fileid)) {
    co_await held.listing_changed(directory.fileid, std::chrono::seconds(1));
  }
  shown = std::max(shown, cells.pending(directory.fileid));
  auto collected = Collector(*this, directory, limits).run(after);
  if (!collected) co_return refuse(collected.error());
  if (limits.attributes) co_await describe_all(*this, peers_, *collected, shown);
  co_return std::move(collected->page);
}

Task<Answer<NamesPage>> NameSpace::list_everywhere(CellRef directory, Cookie after, PageLimits limits,
                                                   storage::LogPosition& shown) {
  constexpr unsigned kTries = 20;
  constexpr Duration kPause = std::chrono::milliseconds(10);
  for (unsigned tries = 0; tries < kTries; ++tries) {
    auto here = co_await list_here(directory, after, limits, shown);
    if (!here || !placement.hashed()) co_return here;
    bool first_site_fills = !here->end && decode_cookie(last_cookie(here->names)).site == after.site;
    std::vector<SiteId> others = peers_.others();
    if (others.empty() || first_site_fills) co_return here;
    auto pages = co_await list_elsewhere(others, directory, after, limits);
    if (!pages) co_return refuse(pages.error());
    pages->push_back(std::move(*here));
    if (auto merged = merge(std::move(*pages), after.site, placement.sites())) co_return std::move(*merged);
    co_await context_.loop.sleep(kPause);
  }
  co_return refuse(NfsStatus::kJukebox);
}

Task<Answer<std::vector<NamesPage>>> NameSpace::list_elsewhere(std::vector<SiteId> others, CellRef directory,
                                                               Cookie after, PageLimits limits) {
  wire::ListArgs args{.directory = name_of(directory),
                      .after = encode_cookie(after),
                      .bytes = limits.bytes,
                      .attributes = limits.attributes};
  std::vector<Task<Result<wire::ListResult>>> calls;
  for (SiteId other : others) {
    calls.push_back(peers_.call<wire::ListResult>(other, wire::DirectoryProcedure::kList, args));
  }
  auto answers = co_await all(std::move(calls));
  std::vector<NamesPage> pages;
  for (auto& answer : answers) {
    if (!answer) co_return refuse(answer.error());
    if (answer->status != wire::PeerStatus::kOk) co_return refuse(NfsStatus::kJukebox);
    pages.push_back({answer->end, std::move(answer->sites), std::move(answer->names)});
  }
  co_return pages;
}

}  // namespace slice::dirserver
