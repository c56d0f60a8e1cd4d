// What the small-file server keeps in its key-value store: the map record of each file, the free fragments
// and end of each zone, and the store's own header. Format: docs/formats/smallfile-store.md.
#ifndef SLICE_SMALLFILE_MAP_RECORD_H
#define SLICE_SMALLFILE_MAP_RECORD_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "common/result.h"
#include "smallfile/allocator.h"
#include "wire/nfs3.h"

namespace slice::smallfile {

// Where a logical block of a file lies in its zone.
struct Extent {
  std::uint64_t place = 0;   // offset in the zone
  std::uint32_t stored = 0;  // bytes stored there, 1 to kBlockSize; they take room_for(stored)
  std::uint32_t valid =
      0;  // of those, the ones that are still the file's (a truncate cuts them): 1 to stored
  std::uint32_t checksum = 0;  // CRC-32C of the stored bytes
  bool operator==(const Extent&) const = default;
};

struct MapRecord {
  Epoch epoch;                // of the latest truncation known here
  nfs3::Time mtime;           // of the latest write or truncation here
  std::uint64_t end = 0;      // one past the last byte written here
  std::uint64_t applied = 0;  // journal records of the file up to this sequence are contained
  struct Entry {
    std::uint32_t block = 0;
    Extent extent;
    bool operator==(const Entry&) const = default;
  };
  std::vector<Entry> extents;  // by block, holes left out
  bool operator==(const MapRecord&) const = default;
};

std::string encode(const MapRecord& record);
// kCorrupt where length, version, checksum, or a number in it does not fit. `threshold` bounds blocks and
// end.
Result<MapRecord> decode_map_record(std::string_view bytes, std::uint64_t threshold);

// A zone's end, the length of a fragment, or up to which journal record a site was cleared.
std::string encode_length(std::uint64_t length);
Result<std::uint64_t> decode_length(std::string_view bytes);

// What the whole store was made with: a process with another configuration refuses it.
struct StoreHeader {
  std::uint64_t threshold = 0;
  std::uint32_t sites = 0;
  bool operator==(const StoreHeader&) const = default;
};
std::string encode(const StoreHeader& header);
Result<StoreHeader> decode_store_header(std::string_view bytes);

// Keys. All of a site is one contiguous range, so that it can be moved.
enum class KeyKind : char { kCleared = 'c', kFragment = 'f', kMap = 'm', kZoneEnd = 'z' };
std::string header_key();
// Fragment: offset; map: fileID; end, cleared: 0.
std::string key_of(SiteId site, KeyKind kind, std::uint64_t number);
struct Key {
  SiteId site;
  KeyKind kind = KeyKind::kMap;
  std::uint64_t number = 0;
};
std::optional<Key> parse_key(std::string_view key);

}  // namespace slice::smallfile

#endif  // SLICE_SMALLFILE_MAP_RECORD_H
