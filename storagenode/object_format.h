// How objects lie in local files: docs/formats/object-store.md. Layout, names of files, the header of a
// segment file and the checksum of a block.
#ifndef SLICE_STORAGENODE_OBJECT_FORMAT_H
#define SLICE_STORAGENODE_OBJECT_FORMAT_H

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/bytes.h"
#include "common/ids.h"
#include "wire/object.h"

namespace slice::storagenode {

using wire::ObjectKind;
using wire::ObjectName;

inline constexpr std::uint32_t kFormatVersion = 1;
inline constexpr std::uint64_t kBlock = 4096;                      // bytes under one checksum
inline constexpr std::uint64_t kSegment = std::uint64_t{1} << 30;  // bytes of an object in one local file
inline constexpr std::uint64_t kBlocksPerSegment = kSegment / kBlock;
inline constexpr std::uint64_t kGranule = 1 << 20;  // bytes that one bit of a mark stands for
inline constexpr std::uint64_t kBlocksPerGranule = kGranule / kBlock;
inline constexpr std::size_t kGranulesPerSegment = kSegment / kGranule;
inline constexpr std::uint64_t kMaxObjectSize = (std::uint64_t{1} << 63) - 1;

// Within a segment file: two copies of the header, the checksums, the data.
inline constexpr std::uint64_t kHeaderSlot = 512;
inline constexpr std::uint64_t kSumsStart = 4096;
inline constexpr std::uint64_t kDataStart = kSumsStart + kBlocksPerSegment * 4;
static_assert(kDataStart % kBlock == 0 && kSegment % kGranule == 0 && kGranule % kBlock == 0);

using Granules = std::bitset<kGranulesPerSegment>;

struct SegmentName {
  ObjectName object;
  std::uint64_t index = 0;  // offset / kSegment
  auto operator<=>(const SegmentName&) const = default;
};

// "objects/00000001/0000000000a/0f3/000000000000a0f3.0", and below it ".d/..." for segments but the first.
std::string head_path(const ObjectName& name);
std::string more_folder(const ObjectName& name);
std::string segment_path(const SegmentName& name);
std::string folder_of(std::string_view path);
// Of a file's name in its folder; nothing where it is no head.
std::optional<ObjectName> parse_head(VolumeId volume, std::string_view file_name);
std::optional<std::uint64_t> parse_hex(std::string_view digits);
std::string to_string(const ObjectName& name);  // "1/000000000000a0f3/file", for log lines

struct SegmentHeader {
  SegmentName name;
  Epoch epoch;            // the object's truncation epoch; only the first segment's counts
  bool has_more = false;  // the first segment: the object has, or had, other segments
  std::uint64_t sequence = 0;
  bool twice = false;  // both copies say the same, once they are durable
};
using HeaderSlot = std::array<std::uint8_t, kHeaderSlot>;
HeaderSlot encode_header(const SegmentHeader& header);
// The newer valid one of the two copies; nothing where it may not be the newest that was durable.
struct HeaderCopies {
  std::optional<SegmentHeader> newest;
  bool damaged = false;  // the other one is; what it said is not lost
  bool equal = false;    // but for their sequence
};
HeaderCopies decode_header(ByteView slots);
inline std::uint64_t header_slot_offset(std::uint64_t sequence) {
  return (sequence & 1) * kHeaderSlot;
}

// What is stored for a block with this CRC-32C: 0 for a block of zeros, so that holes need no checksums; else
// mixed with the block's identity, so that a block that was written elsewhere does not pass.
std::uint32_t stored_sum(std::uint32_t crc, std::uint64_t seed);
// Of block number `block` of the segment: seed = block_seed(segment_seed(...), block).
std::uint64_t segment_seed(const SegmentName& name);
inline std::uint64_t block_seed(std::uint64_t of_segment, std::uint64_t block) {
  return of_segment + block * 0x9e3779b97f4a7c15;
}
// Of consecutive blocks from `first` on. `data` is whole blocks.
void compute_sums(ByteView data, std::uint64_t of_segment, std::uint64_t first, std::uint32_t* sums);

// A record of the marks file: granules of a segment that may have been written since they were last known
// whole on disk.
struct MarkRecord {
  SegmentName segment;
  Epoch epoch;
  Granules granules;
};
inline constexpr std::uint64_t kMarkSlot = 512;  // one sector: written whole or not at all
std::array<std::uint8_t, kMarkSlot> encode_mark(const MarkRecord& record);
std::optional<MarkRecord> decode_mark(ByteView slot);

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_OBJECT_FORMAT_H
