#include "smallfile/map_record.h"

#include "common/crc32c.h"

namespace slice::smallfile {
namespace {

constexpr std::uint8_t kMapVersion = 1, kLengthVersion = 1, kHeaderVersion = 1;
constexpr std::size_t kMapFixed = 40, kExtentSize = 20, kChecksumSize = 4;
constexpr std::size_t kSiteKeySize = 14;
constexpr char kHeaderTable = 'h', kSiteTable = 's';

template <class T>
void put(std::string& out, T value) {
  std::uint8_t bytes[sizeof value];
  store_be(bytes, value);
  out.append(reinterpret_cast<const char*>(bytes), sizeof value);
}
template <class T>
T get(std::string_view bytes, std::size_t at) {
  return load_be<T>(reinterpret_cast<const std::uint8_t*>(bytes.data()) + at);
}

void put_checksum(std::string& out) {
  put<std::uint32_t>(out, crc32c(as_bytes(out)));
}
bool checksum_fits(std::string_view bytes) {
  if (bytes.size() < kChecksumSize) return false;
  std::string_view covered = bytes.substr(0, bytes.size() - kChecksumSize);
  return crc32c(as_bytes(covered)) == get<std::uint32_t>(bytes, covered.size());
}

bool extent_fits(const MapRecord::Entry& entry, std::uint64_t threshold) {
  const Extent& extent = entry.extent;
  return std::uint64_t{entry.block} * kBlockSize < threshold && extent.stored > 0 &&
         extent.stored <= kBlockSize && extent.valid > 0 && extent.valid <= extent.stored &&
         extent.place % kLeastExtent == 0 && extent.place < kMaxZone;
}

}  // namespace

std::string encode(const MapRecord& record) {
  std::string out;
  out.reserve(kMapFixed + record.extents.size() * kExtentSize + kChecksumSize);
  put<std::uint8_t>(out, kMapVersion);
  put<std::uint8_t>(out, 0);
  put<std::uint16_t>(out, 0);
  put<std::uint32_t>(out, static_cast<std::uint32_t>(record.extents.size()));
  put<std::uint32_t>(out, record.epoch.value);
  put<std::uint32_t>(out, record.mtime.seconds);
  put<std::uint32_t>(out, record.mtime.nanoseconds);
  put<std::uint32_t>(out, 0);
  put<std::uint64_t>(out, record.end);
  put<std::uint64_t>(out, record.applied);
  for (const auto& [block, extent] : record.extents) {
    put<std::uint32_t>(out, block);
    put<std::uint16_t>(out, static_cast<std::uint16_t>(extent.stored));
    put<std::uint16_t>(out, static_cast<std::uint16_t>(extent.valid));
    put<std::uint32_t>(out, extent.checksum);
    put<std::uint64_t>(out, extent.place);
  }
  put_checksum(out);
  return out;
}

Result<MapRecord> decode_map_record(std::string_view bytes, std::uint64_t threshold) {
  if (bytes.size() < kMapFixed + kChecksumSize || !checksum_fits(bytes)) {
    return fail(Errc::kCorrupt, "a map record of {} bytes whose checksum does not fit", bytes.size());
  }
  if (get<std::uint8_t>(bytes, 0) != kMapVersion) {
    return fail(Errc::kCorrupt, "a map record of version {}", get<std::uint8_t>(bytes, 0));
  }
  std::uint64_t count = get<std::uint32_t>(bytes, 4);
  if (bytes.size() != kMapFixed + count * kExtentSize + kChecksumSize) {
    return fail(Errc::kCorrupt, "a map record of {} bytes with {} extents", bytes.size(), count);
  }
  MapRecord record{.epoch = {get<std::uint32_t>(bytes, 8)},
                   .mtime = {get<std::uint32_t>(bytes, 12), get<std::uint32_t>(bytes, 16)},
                   .end = get<std::uint64_t>(bytes, 24),
                   .applied = get<std::uint64_t>(bytes, 32),
                   .extents = {}};
  if (record.end > threshold) return fail(Errc::kCorrupt, "a map record that ends at {}", record.end);
  for (std::uint64_t i = 0; i < count; ++i) {
    std::size_t at = kMapFixed + i * kExtentSize;
    MapRecord::Entry entry{.block = get<std::uint32_t>(bytes, at),
                           .extent = {.place = get<std::uint64_t>(bytes, at + 12),
                                      .stored = get<std::uint16_t>(bytes, at + 4),
                                      .valid = get<std::uint16_t>(bytes, at + 6),
                                      .checksum = get<std::uint32_t>(bytes, at + 8)}};
    bool in_order = record.extents.empty() || record.extents.back().block < entry.block;
    if (!in_order || !extent_fits(entry, threshold)) {
      return fail(Errc::kCorrupt, "a map record with a bad extent for block {}", entry.block);
    }
    record.extents.push_back(entry);
  }
  return record;
}

std::string encode_length(std::uint64_t length) {
  std::string out;
  put<std::uint8_t>(out, kLengthVersion);
  put<std::uint64_t>(out, length);
  put_checksum(out);
  return out;
}

Result<std::uint64_t> decode_length(std::string_view bytes) {
  if (bytes.size() != 1 + 8 + kChecksumSize || !checksum_fits(bytes) ||
      get<std::uint8_t>(bytes, 0) != kLengthVersion) {
    return fail(Errc::kCorrupt, "a length of {} bytes that does not fit its format", bytes.size());
  }
  return get<std::uint64_t>(bytes, 1);
}

std::string encode(const StoreHeader& header) {
  std::string out;
  put<std::uint8_t>(out, kHeaderVersion);
  put<std::uint32_t>(out, kBlockSize);
  put<std::uint32_t>(out, header.sites);
  put<std::uint64_t>(out, header.threshold);
  put_checksum(out);
  return out;
}

Result<StoreHeader> decode_store_header(std::string_view bytes) {
  if (bytes.size() != 1 + 4 + 4 + 8 + kChecksumSize || !checksum_fits(bytes)) {
    return fail(Errc::kCorrupt, "the store's header does not fit its checksum");
  }
  if (get<std::uint8_t>(bytes, 0) != kHeaderVersion || get<std::uint32_t>(bytes, 1) != kBlockSize) {
    return fail(Errc::kInvalid,
                "the store's format is version {} with blocks of {} bytes; this program knows {} and {}",
                get<std::uint8_t>(bytes, 0), get<std::uint32_t>(bytes, 1), kHeaderVersion, kBlockSize);
  }
  return StoreHeader{.threshold = get<std::uint64_t>(bytes, 9), .sites = get<std::uint32_t>(bytes, 5)};
}

std::string header_key() {
  return std::string(1, kHeaderTable);
}

std::string key_of(SiteId site, KeyKind kind, std::uint64_t number) {
  std::string key;
  key.reserve(kSiteKeySize);
  key.push_back(kSiteTable);
  put<std::uint32_t>(key, site.value);
  key.push_back(static_cast<char>(kind));
  put<std::uint64_t>(key, number);
  return key;
}

std::optional<Key> parse_key(std::string_view key) {
  if (key.size() != kSiteKeySize || key[0] != kSiteTable) return std::nullopt;
  char kind = key[5];
  if (kind != 'c' && kind != 'f' && kind != 'm' && kind != 'z') return std::nullopt;
  return Key{{get<std::uint32_t>(key, 1)}, static_cast<KeyKind>(kind), get<std::uint64_t>(key, 6)};
}

}  // namespace slice::smallfile
