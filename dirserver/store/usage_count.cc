#include "dirserver/store/usage_count.h"

#include <algorithm>
#include <utility>

#include "common/log.h"

namespace slice::dirserver {
namespace {

constexpr std::size_t kCountedATurn = 500;  // cells, which are decoded; some tenths of a millisecond

}  // namespace

UsageChange::Side usage_of(const AttributeCell& cell) {
  return {owners_of(cell), used_by(cell)};
}

void UsageCount::begin(const storage::KvStore& store, const std::vector<SiteId>& sites, Loop& loop) {
  if (std::exchange(on_, true)) return;
  alive_ = std::make_shared<bool>(true);
  for (SiteId site : sites) came(store, site, loop);
}

void UsageCount::end() {
  on_ = armed_ = false;
  alive_.reset();
  counting_ = 0;
  sites_.clear();
  sums_.clear();
  ++version_;
}

void UsageCount::came(const storage::KvStore& store, SiteId number, Loop& loop) {
  if (!on_) return;
  went(number);
  Site& site = sites_[number.value];
  const KeyRange range = range_of(number, CellKind::kAttributes);
  site.cells = store.iterate(range.begin, range.end);
  site.cells->seek(range.begin);
  ++counting_;
  count_later(loop);
}

void UsageCount::went(SiteId number) {
  const auto found = sites_.find(number.value);
  if (found == sites_.end()) return;
  for (const auto& [who, sum] : found->second.sums) add(sums_, who, -sum.space, -sum.files);
  if (!found->second.counted) --counting_;
  sites_.erase(found);
  ++version_;
}

void UsageCount::changed(const UsageChange& change) {
  if (!on_ || change.before == change.after) return;
  const auto found = sites_.find(change.site.value);
  if (found == sites_.end()) return;
  if (change.before) add(found->second, *change.before, -1);
  if (change.after) add(found->second, *change.after, 1);
  ++version_;
}

void UsageCount::add(Site& site, const UsageChange::Side& side, int sign) {
  const std::int64_t space = sign * static_cast<std::int64_t>(side.space);
  for (QuotaId who : side.owners.ids()) {
    if (who == kOfNoTree) continue;
    add(site.sums, who, space, sign);
    add(sums_, who, space, sign);
  }
}

void UsageCount::add(Sums& sums, QuotaId who, std::int64_t space, std::int64_t files) {
  Sum& sum = sums[who];
  sum.space += space;
  sum.files += files;  // who has nothing any more stays: as a rule they have something again
}

void UsageCount::count_later(Loop& loop) {
  if (std::exchange(armed_, true)) return;
  loop.post([this, &loop, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) count_some(loop);
  });
}

void UsageCount::count_some(Loop& loop) {
  armed_ = false;
  std::size_t left = kCountedATurn;
  for (auto& [number, site] : sites_) {
    if (!site.cells) continue;
    while (left > 0 && count_one(SiteId{number}, site)) --left;
    if (left == 0) return count_later(loop);
  }
}

bool UsageCount::count_one(SiteId number, Site& site) {
  if (site.cells->valid()) {
    auto cell = decode_attribute_cell(number, site.cells->value());
    // What cannot be read is no reason not to count the others; fsck tells of it.
    if (cell) add(site, usage_of(*cell), 1);
    site.cells->next();
    return true;
  }
  // A site that cannot be read never counts as counted: what its server told before goes on to count.
  if (Status status = site.cells->status(); !status) {
    log_error("usage of site {} cannot be counted: {}", number.value, status.error().message);
  } else {
    site.counted = true;
    --counting_;
    ++version_;
  }
  site.cells.reset();
  return false;
}

QuotaUsage UsageCount::of(QuotaId whose) const {
  const auto found = sums_.find(whose);
  if (found == sums_.end()) return {};
  const auto natural = [](std::int64_t n) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(n, 0));
  };
  return {natural(found->second.space), natural(found->second.files)};
}

}  // namespace slice::dirserver
