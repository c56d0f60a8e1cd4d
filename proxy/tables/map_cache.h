// MapCache: pieces of block maps, as the proxy has fetched them from coordinators. They are hints: a storage
// server that a stripe has left passes requests on (docs/block-maps.md). No request waits for a piece: until
// it is here, requests go where the hash has them, and one question is under way. Thread-safe.
#ifndef SLICE_PROXY_TABLES_MAP_CACHE_H
#define SLICE_PROXY_TABLES_MAP_CACHE_H

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "common/ids.h"
#include "common/loop.h"
#include "common/metrics.h"
#include "routing/file_handle.h"
#include "wire/layout.h"

namespace slice::proxy {

class MapCache {
 public:
  static constexpr Duration kLife = std::chrono::seconds(5);  // then it is fetched anew, and used meanwhile
  static constexpr Duration kUnplacedLife = std::chrono::milliseconds(200);
  static constexpr std::size_t kMaxPieces = 16384;

  // Has a piece fetched, which ends in put() or failed(); called on any thread.
  using Ask = std::function<void(const routing::HandleBytes& handle, FileId file, std::uint64_t stripe)>;
  MapCache(Ask ask, Metrics& metrics);

  // Where the stripe is; nothing where that is not known, or it has no place yet.
  std::optional<std::uint32_t> site(const routing::HandleBytes& handle, FileId file, std::uint64_t stripe,
                                    MonoTime now);
  void put(FileId file, const wire::MapPiece& piece, MonoTime now);
  void failed(FileId file, std::uint64_t piece, MonoTime now);

 private:
  struct Entry {
    std::vector<std::uint32_t> sites;
    MonoTime until{};
    bool asking = false;
  };
  std::mutex mutex_;
  std::map<std::pair<FileId, std::uint64_t>, Entry> entries_;
  Ask ask_;
  Counter &fetches_, &failures_, &unknown_;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_TABLES_MAP_CACHE_H
