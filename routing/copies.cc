#include "routing/copies.h"

#include <algorithm>
#include <set>

#include "wire/listed_site.h"

namespace slice::routing {

std::uint32_t copies_of(const FileHandle& handle) {
  return slice_handle_copies(handle.flags);
}

const wire::Missing* find_missing(const std::vector<wire::Missing>& missing, std::uint32_t server) {
  auto found = std::find_if(missing.begin(), missing.end(),
                            [&](const wire::Missing& each) { return each.server == server; });
  return found == missing.end() ? nullptr : &*found;
}

SiteId site_of_stripe(const RoutingTables& tables, const wire::FileLayout& layout, const FileHandle& handle,
                      std::uint64_t stripe) {
  const std::vector<std::uint32_t>& sites = layout.piece.sites;
  if (has_layout(handle) && !sites.empty()) return SiteId{sites[stripe % wire::kStripesOfPiece]};
  return tables.storage_site(handle.fileid, stripe << handle.stripe_shift, handle.stripe_shift);
}

bool may_serve(const RoutingTables& tables, std::uint32_t server, const Route& place,
               const FileHandle& handle) {
  // Any storage server asks the coordinator for the map, and passes on what is not for it.
  if (place.site_class == wire::Role::kStorage && has_layout(handle)) return true;
  return tables.owns(server, place.site_class, place.site);
}

std::uint32_t server_for(const RoutingTables& tables, const Route& place, const FileHandle& handle) {
  if (place.site_class == wire::Role::kStorage && has_layout(handle)) {
    return tables.copies_of(place.site, 1).front();
  }
  return tables.server_of(place.site_class, place.site).server;
}

std::vector<std::uint32_t> storage_servers(const RoutingTables& tables, const FileHandle& handle) {
  if (has_layout(handle)) return tables.layout_servers();
  const auto& owners = tables.wire().sites[static_cast<std::size_t>(wire::Role::kStorage)];
  const std::set<std::uint32_t> servers(owners.begin(), owners.end());
  return {servers.begin(), servers.end()};
}

StripeCopies copies_of_stripe(const RoutingTables& tables, const wire::FileLayout& layout,
                              const FileHandle& handle, std::uint64_t stripe) {
  SiteId site = site_of_stripe(tables, layout, handle, stripe);
  if (!has_layout(handle)) {
    const std::vector<std::uint32_t> owner{tables.server_of(wire::Role::kStorage, site).server};
    return {.all = owner, .whole = owner, .written = owner};
  }
  std::optional<SiteId> other;
  if (layout.moving && layout.moving->stripe == stripe) {
    other = SiteId{layout.moving->site};
    if (layout.moving->switched) std::swap(site, *other);
  }
  StripeCopies copies;
  copies.all = tables.copies_of(site, copies_of(handle));
  for (std::uint32_t server : copies.all) {
    const wire::Missing* missing = find_missing(layout.missing, server);
    bool misses = missing != nullptr && contains(missing->stripes, stripe);
    if (!misses) copies.whole.push_back(server);
    if (!misses || missing->joining) copies.written.push_back(server);
  }
  if (!other) return copies;
  for (std::uint32_t server : tables.copies_of(*other, copies_of(handle))) {
    if (!has(copies.all, server)) copies.written.push_back(server);
  }
  return copies;
}

wire::MapPiece spelled_out(const RoutingTables& tables, const FileHandle& handle, wire::MapPiece piece) {
  if (!has_layout(handle) || (piece.sites.empty() && block_mapped(handle))) return piece;
  const wire::FileLayout layout{.piece = piece};
  std::vector<std::uint32_t> listed;
  for (std::uint64_t i = 0; i < wire::kStripesOfPiece; ++i) {
    const SiteId site = site_of_stripe(tables, layout, handle, piece.number * wire::kStripesOfPiece + i);
    listed.push_back(wire::listed_site(tables.copies_of(site, copies_of(handle))));
  }
  piece.sites = std::move(listed);
  return piece;
}

namespace {

std::uint64_t missed_since(const wire::Missing& missing, std::uint64_t stripe) {
  std::uint64_t since = 0;
  for (const auto& [stripes, version] : missing.since) {
    if (stripes.first <= stripe && stripe < stripes.end) since = std::max(since, version);
  }
  return since;
}

}  // namespace

void note_missed_since(wire::Missing& missing, wire::StripeRange stripes, std::uint64_t version) {
  auto& since = missing.since;
  since.push_back({stripes, version});
  if (since.size() <= wire::kMaxMissedSince) return;
  const wire::MissedSince &oldest = since[0], &next = since[1];
  since[1] = {
      {std::min(oldest.stripes.first, next.stripes.first), std::max(oldest.stripes.end, next.stripes.end)},
      std::max(oldest.version, next.version)};
  since.erase(since.begin());
}

std::uint64_t ordered_since(const wire::FileLayout& layout, const StripeCopies& copies,
                            std::uint64_t stripe) {
  const std::uint32_t orderer = copies.whole.front();
  auto found = std::find_if(layout.orders_since.begin(), layout.orders_since.end(),
                            [&](const wire::OrdersSince& each) { return each.server == orderer; });
  std::uint64_t since = found == layout.orders_since.end() ? layout.others_order_since : found->version;
  bool before = true;  // the orderer, in the order
  for (std::uint32_t server : copies.all) {
    if (server == orderer) before = false;
    if (has(copies.whole, server)) continue;
    const std::uint64_t missed = missed_since(*find_missing(layout.missing, server), stripe);
    // Of those that miss the stripe one that comes before it ordered them once. And as long as not everybody
    // knows that one misses it, readers may still be answered there.
    if (before || missed == wire::kNotYet) since = std::max(since, missed);
  }
  return since;
}

bool contains(const std::vector<wire::StripeRange>& set, std::uint64_t stripe) {
  auto after =
      std::upper_bound(set.begin(), set.end(), stripe,
                       [](std::uint64_t at, const wire::StripeRange& range) { return at < range.first; });
  return after != set.begin() && stripe < std::prev(after)->end;
}

void add(std::vector<wire::StripeRange>& set, wire::StripeRange range) {
  auto first = std::find_if(set.begin(), set.end(),
                            [&](const wire::StripeRange& each) { return each.end >= range.first; });
  auto last = first;
  while (last != set.end() && last->first <= range.end) {
    range.first = std::min(range.first, last->first);
    range.end = std::max(range.end, last->end);
    ++last;
  }
  set.insert(set.erase(first, last), range);
  if (set.size() <= wire::kMaxStripeRanges) return;
  std::size_t nearest = 1;
  for (std::size_t i = 2; i < set.size(); ++i) {
    if (set[i].first - set[i - 1].end < set[nearest].first - set[nearest - 1].end) nearest = i;
  }
  set[nearest - 1].end = set[nearest].end;
  set.erase(set.begin() + static_cast<std::ptrdiff_t>(nearest));
}

std::vector<wire::StripeRange> without(const std::vector<wire::StripeRange>& set,
                                       const std::vector<wire::StripeRange>& others) {
  std::vector<wire::StripeRange> left;
  auto other = others.begin();
  for (auto [first, end] : set) {
    while (other != others.end() && other->end <= first) ++other;
    for (auto at = other; at != others.end() && at->first < end; ++at) {
      if (first < at->first) left.push_back({first, at->first});
      first = std::min(at->end, end);
    }
    if (first < end) left.push_back({first, end});
  }
  return left;
}

}  // namespace slice::routing
