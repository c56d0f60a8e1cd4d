// ZoneAllocator: which bytes of one zone are in use. Extents are powers of two from 128 to 8192 bytes; freed
// ones become fragments, which coalesce with their neighbours and are reused best fit; what no fragment holds
// goes to the zone's end, so that files made one after another lie one after another. In memory only: the
// store saves what take_changes() names. Not thread-safe.
#ifndef SLICE_SMALLFILE_ALLOCATOR_H
#define SLICE_SMALLFILE_ALLOCATOR_H

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/result.h"

namespace slice::smallfile {

inline constexpr std::uint32_t kBlockSize = 8192;                  // a logical block of a file, bytes
inline constexpr std::uint32_t kLeastExtent = 128;                 // bytes
inline constexpr std::uint64_t kMaxZone = std::uint64_t{1} << 46;  // bytes

// The room that `length` bytes (1 to kBlockSize) take: the next power of two, kLeastExtent at least.
std::uint32_t room_for(std::uint32_t length);

class ZoneAllocator {
 public:
  // What was saved: the zone's end, then its fragments in any order. kCorrupt for a fragment that is not
  // inside the zone, is misaligned, or overlaps or touches another.
  Status restore_end(std::uint64_t end);
  Status restore_fragment(std::uint64_t offset, std::uint64_t length);

  // Room for `length` bytes (1 to kBlockSize). The smallest fragment that holds it, the first of those; else
  // the zone's end, which moves.
  std::uint64_t allocate(std::uint32_t length);
  // The same room back. It must be allocated, whole.
  void release(std::uint64_t offset, std::uint32_t length);

  std::uint64_t end() const { return end_; }
  std::uint64_t free_bytes() const { return free_bytes_; }      // in fragments
  std::uint64_t usable_bytes() const { return usable_bytes_; }  // in fragments that hold a whole block
  const std::map<std::uint64_t, std::uint64_t>& fragments() const { return by_offset_; }  // offset: length

  // Takes back the release that was the latest to touch this room, where it could not be saved.
  void reclaim(std::uint64_t offset, std::uint32_t length);

  // What is to be saved anew since the last call: fragments by offset, with their length or nothing where
  // there is none any more. The end is to be saved as well where `end_moved`.
  struct Changes {
    std::vector<std::pair<std::uint64_t, std::optional<std::uint64_t>>> fragments;
    bool end_moved = false;
  };
  Changes take_changes();
  // They could not be saved: the next take_changes() names them again.
  void give_back(const Changes& changes);

 private:
  void insert(std::uint64_t offset, std::uint64_t length);
  void erase(std::uint64_t offset, std::uint64_t length);

  std::uint64_t end_ = 0;
  std::uint64_t free_bytes_ = 0;
  std::uint64_t usable_bytes_ = 0;
  std::map<std::uint64_t, std::uint64_t> by_offset_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_length_;  // (length, offset)
  std::set<std::uint64_t> touched_;
  bool end_moved_ = false;
};

}  // namespace slice::smallfile

#endif  // SLICE_SMALLFILE_ALLOCATOR_H
