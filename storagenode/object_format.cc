#include "storagenode/object_format.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "common/crc32c.h"
#include "rpc/xdr.h"
#include "storage/mix.h"

namespace slice::storagenode {
namespace {

constexpr std::uint64_t kHeaderMagic = 0x534c4943454f424a;  // "SLICEOBJ"
constexpr std::uint64_t kMarkMagic = 0x534c4943454d524b;    // "SLICEMRK"
constexpr std::uint32_t kHasMore = 1, kTwice = 2;           // flags of a header
constexpr std::size_t kHeaderFields = 60;                   // and 4 bytes of checksum
constexpr std::size_t kMarkFields = 48 + kGranulesPerSegment / 8;
constexpr std::uint32_t kLargestKind = static_cast<std::uint32_t>(ObjectKind::kStore);

std::uint32_t zero_block_crc() {
  static const std::uint32_t crc = [] {
    std::vector<std::uint8_t> zeros(kBlock);
    return crc32c(zeros);
  }();
  return crc;
}

void put_name(rpc::XdrWriter& out, const SegmentName& name) {
  out.u32(name.object.volume.value);
  out.u64(name.object.fileid.value);
  out.u32(static_cast<std::uint32_t>(name.object.kind));
  out.u64(name.index);
}

SegmentName get_name(rpc::XdrReader& in) {
  SegmentName name;
  name.object.volume = {in.u32()};
  name.object.fileid = {in.u64()};
  std::uint32_t kind = in.u32();
  if (kind > kLargestKind) in.fail();
  name.object.kind = static_cast<ObjectKind>(kind);
  name.index = in.u64();
  return name;
}

// Copies the fields into a zeroed slot, with their checksum behind them.
template <std::size_t N>
std::array<std::uint8_t, N> seal(const rpc::XdrWriter& fields) {
  std::array<std::uint8_t, N> slot{};
  std::memcpy(slot.data(), fields.view().data(), fields.size());
  store_be(slot.data() + fields.size(), crc32c(fields.view()));
  return slot;
}

std::optional<SegmentHeader> decode_one(ByteView slot) {
  if (slot.size() < kHeaderFields + 4) return std::nullopt;
  if (load_be<std::uint32_t>(slot.data() + kHeaderFields) != crc32c(slot.first(kHeaderFields))) return {};
  rpc::XdrReader in(slot.first(kHeaderFields));
  if (in.u64() != kHeaderMagic || in.u32() != kFormatVersion) return std::nullopt;
  SegmentHeader header;
  header.name = get_name(in);
  header.epoch = {in.u32()};
  std::uint32_t flags = in.u32();
  header.has_more = (flags & kHasMore) != 0;
  header.twice = (flags & kTwice) != 0;
  header.sequence = in.u64();
  in.skip(kHeaderFields - 52);
  if (!in.complete()) return std::nullopt;
  return header;
}

}  // namespace

std::string head_path(const ObjectName& name) {
  std::uint64_t id = name.fileid.value;
  return fmt::format("objects/{:08x}/{:011x}/{:03x}/{:016x}.{}", name.volume.value, id >> 20,
                     (id >> 8) & 0xfff, id, static_cast<unsigned>(name.kind));
}

std::string more_folder(const ObjectName& name) {
  return head_path(name) + ".d";
}

std::string segment_path(const SegmentName& name) {
  if (name.index == 0) return head_path(name.object);
  return fmt::format("{}/{:010x}", more_folder(name.object), name.index);
}

std::string folder_of(std::string_view path) {
  auto slash = path.rfind('/');
  return slash == std::string_view::npos ? "" : std::string(path.substr(0, slash));
}

std::optional<std::uint64_t> parse_hex(std::string_view digits) {
  if (digits.empty() || digits.size() > 16) return std::nullopt;
  std::uint64_t value = 0;
  for (char digit : digits) {
    if (digit >= '0' && digit <= '9') {
      value = value << 4 | static_cast<std::uint64_t>(digit - '0');
    } else if (digit >= 'a' && digit <= 'f') {
      value = value << 4 | static_cast<std::uint64_t>(digit - 'a' + 10);
    } else {
      return std::nullopt;
    }
  }
  return value;
}

std::optional<ObjectName> parse_head(VolumeId volume, std::string_view file_name) {
  if (file_name.size() != 18 || file_name[16] != '.') return std::nullopt;
  auto id = parse_hex(file_name.substr(0, 16));
  auto kind = parse_hex(file_name.substr(17));
  if (!id || !kind || *kind > kLargestKind) return std::nullopt;
  return ObjectName{volume, FileId{*id}, static_cast<ObjectKind>(*kind)};
}

std::string to_string(const ObjectName& name) {
  static constexpr std::array<std::string_view, 4> kKinds{"file", "zone", "log", "store"};
  auto kind = static_cast<std::size_t>(name.kind);
  return fmt::format("{}/{:016x}/{}", name.volume.value, name.fileid.value,
                     kind < kKinds.size() ? kKinds[kind] : "?");
}

HeaderSlot encode_header(const SegmentHeader& header) {
  rpc::XdrWriter out;
  out.u64(kHeaderMagic);
  out.u32(kFormatVersion);
  put_name(out, header.name);
  out.u32(header.epoch.value);
  out.u32((header.has_more ? kHasMore : 0) | (header.twice ? kTwice : 0));
  out.u64(header.sequence);
  while (out.size() < kHeaderFields) out.u32(0);
  return seal<kHeaderSlot>(out);
}

HeaderCopies decode_header(ByteView slots) {
  HeaderCopies copies;
  if (slots.size() < 2 * kHeaderSlot) return copies;
  auto first = decode_one(slots.first(kHeaderSlot));
  auto second = decode_one(slots.subspan(kHeaderSlot, kHeaderSlot));
  copies.newest = first && (!second || first->sequence > second->sequence) ? first : second;
  if (!copies.newest) return copies;
  if (first && second) {
    copies.equal = first->twice && second->twice && first->name == second->name &&
                   first->epoch == second->epoch && first->has_more == second->has_more;
    return copies;
  }
  ByteView other = slots.subspan(first ? kHeaderSlot : 0, kHeaderSlot);
  bool never_written = std::all_of(other.begin(), other.end(), [](std::uint8_t byte) { return byte == 0; });
  copies.damaged = !never_written || copies.newest->twice;
  // Of two that take turns the one that is lost may be the newer.
  bool known = copies.newest->twice || (never_written && copies.newest->sequence == 1);
  if (!known) copies.newest.reset();
  return copies;
}

std::uint32_t stored_sum(std::uint32_t crc, std::uint64_t seed) {
  if (crc == zero_block_crc()) return 0;
  return crc ^ static_cast<std::uint32_t>(storage::mixed(seed));
}

std::uint64_t segment_seed(const SegmentName& name) {
  std::uint64_t seed = storage::mixed(name.object.fileid.value + 1);
  seed =
      storage::mixed(seed ^ name.object.volume.value ^ (static_cast<std::uint64_t>(name.object.kind) << 32));
  return storage::mixed(seed + name.index);
}

void compute_sums(ByteView data, std::uint64_t of_segment, std::uint64_t first, std::uint32_t* sums) {
  crc32c_each(data, kBlock, sums);
  for (std::size_t i = 0; i < data.size() / kBlock; ++i) {
    sums[i] = stored_sum(sums[i], block_seed(of_segment, first + i));
  }
}

std::array<std::uint8_t, kMarkSlot> encode_mark(const MarkRecord& record) {
  rpc::XdrWriter out;
  out.u64(kMarkMagic);
  out.u32(kFormatVersion);
  put_name(out, record.segment);
  out.u32(record.epoch.value);
  out.u64(0);
  std::array<std::uint8_t, kGranulesPerSegment / 8> bits{};
  for (std::size_t i = 0; i < kGranulesPerSegment; ++i) {
    if (record.granules[i]) bits[i / 8] |= static_cast<std::uint8_t>(1 << (i % 8));
  }
  out.fixed(bits);
  return seal<kMarkSlot>(out);
}

std::optional<MarkRecord> decode_mark(ByteView slot) {
  if (slot.size() != kMarkSlot) return std::nullopt;
  if (load_be<std::uint32_t>(slot.data() + kMarkFields) != crc32c(slot.first(kMarkFields))) return {};
  rpc::XdrReader in(slot.first(kMarkFields));
  if (in.u64() != kMarkMagic || in.u32() != kFormatVersion) return std::nullopt;
  MarkRecord record;
  record.segment = get_name(in);
  record.epoch = {in.u32()};
  in.skip(8);
  ByteView bits = in.fixed(kGranulesPerSegment / 8);
  if (!in.complete()) return std::nullopt;
  for (std::size_t i = 0; i < kGranulesPerSegment; ++i) {
    record.granules[i] = (bits[i / 8] >> (i % 8) & 1) != 0;
  }
  return record;
}

}  // namespace slice::storagenode
