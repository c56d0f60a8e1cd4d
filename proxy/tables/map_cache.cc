#include "proxy/tables/map_cache.h"

namespace slice::proxy {

MapCache::MapCache(Ask ask, Metrics& metrics)
    : ask_(std::move(ask)),
      fetches_(metrics.counter("proxy_map_fetches_total", "pieces of block maps asked for")),
      failures_(
          metrics.counter("proxy_map_fetch_failures_total", "pieces of block maps that could not be had")),
      unknown_(metrics.counter(
          "proxy_map_unknown_total",
          "READs and WRITEs of stripes whose place the proxy did not know: sent where the hash has them")) {}

std::optional<std::uint32_t> MapCache::site(const routing::HandleBytes& handle, FileId file,
                                            std::uint64_t stripe, MonoTime now) {
  std::optional<std::uint32_t> site;
  bool asks = false;
  {
    std::lock_guard lock(mutex_);
    if (entries_.size() >= kMaxPieces) entries_.clear();
    Entry& entry = entries_[{file, wire::piece_of(stripe)}];
    if (!entry.sites.empty()) site = entry.sites[stripe % wire::kStripesOfPiece];
    asks = !entry.asking && now >= entry.until;
    entry.asking = entry.asking || asks;
  }
  if (!site) unknown_.add();
  if (asks) {
    fetches_.add();
    ask_(handle, file, stripe);
  }
  return site;
}

void MapCache::put(FileId file, const wire::MapPiece& piece, MonoTime now) {
  std::lock_guard lock(mutex_);
  entries_[{file, piece.number}] = {.sites = piece.sites,
                                    .until = now + (piece.sites.empty() ? kUnplacedLife : kLife)};
}

void MapCache::failed(FileId file, std::uint64_t piece, MonoTime now) {
  failures_.add();
  std::lock_guard lock(mutex_);
  auto found = entries_.find({file, piece});
  if (found == entries_.end()) return;
  found->second.asking = false;
  found->second.until = now + kUnplacedLife;
}

}  // namespace slice::proxy
