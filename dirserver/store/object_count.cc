#include "dirserver/store/object_count.h"

#include <algorithm>
#include <utility>

#include "common/log.h"
#include "dirserver/cells/cells.h"

namespace slice::dirserver {
namespace {

constexpr std::size_t kATurn = 2000;  // cells; some tenths of a millisecond

// Behind the last attribute cell of a site.
std::string end_of(SiteId site) {
  std::string end = attribute_key(site, FileId{~std::uint64_t{0}});
  end.push_back('\0');
  return end;
}

}  // namespace

void ObjectCount::begin(const storage::KvStore& store, const std::vector<SiteId>& sites, Loop& loop) {
  changed_ = 0;  // what the start changed is counted with the rest
  for (SiteId site : sites) count(store, site, 1, loop);
  if (sites_.empty()) count_later(loop);
}

void ObjectCount::count(const storage::KvStore& store, SiteId site, int sign, Loop& loop) {
  std::string first = attribute_key(site, FileId{0});
  auto cells = store.iterate(first, end_of(site));
  cells->seek(first);
  if (!cells->valid() && cells->status()) return;
  sites_.push_back({std::move(cells), sign});
  count_later(loop);
}

void ObjectCount::count_later(Loop& loop) {
  if (std::exchange(counting_, true)) return;
  loop.post([this, &loop, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) count_some(loop);
  });
}

void ObjectCount::count_some(Loop& loop) {
  counting_ = false;
  for (std::size_t i = 0; i < kATurn && !sites_.empty(); ++i) {
    Site& site = sites_.back();
    if (site.cells->valid()) {
      counted_ += site.sign;
      site.cells->next();
      continue;
    }
    if (Status status = site.cells->status(); !status) {
      log_error("objects cannot be counted: {}", status.error().message);
      sites_.clear();
      return;
    }
    sites_.pop_back();
  }
  if (sites_.empty()) {
    done_ = true;
  } else {
    count_later(loop);
  }
}

std::optional<std::uint64_t> ObjectCount::objects() const {
  if (!done_) return std::nullopt;
  return static_cast<std::uint64_t>(std::max<std::int64_t>(counted_ + changed_, 0));
}

}  // namespace slice::dirserver
