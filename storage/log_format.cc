#include "storage/log_format.h"

#include <fmt/core.h>
#include <cassert>

#include "common/crc32c.h"

namespace slice::storage::log_format {
namespace {

constexpr std::string_view kSuffix = ".log";

// Places in a segment header.
constexpr std::size_t kVersionAt = 8, kSaltAt = 12, kFirstAt = 16, kFlagsAt = 24, kHeaderCrcAt = 28;
// Places in a record header.
constexpr std::size_t kCrcAt = 0, kLengthAt = 4, kSequenceAt = 8, kDurableAt = 16;

constexpr std::uint32_t kRecycled = 1;  // a flag of the segment

}  // namespace

void encode(const SegmentHeader& header, ByteSpan out) {
  assert(out.size() >= kSegmentHeaderSize);
  std::memcpy(out.data(), kMagic.data(), kMagic.size());
  store_be<std::uint32_t>(out.data() + kVersionAt, kVersion);
  store_be<std::uint32_t>(out.data() + kSaltAt, header.salt);
  store_be<std::uint64_t>(out.data() + kFirstAt, header.first_sequence);
  store_be<std::uint32_t>(out.data() + kFlagsAt, header.recycled ? kRecycled : 0);
  store_be<std::uint32_t>(out.data() + kHeaderCrcAt, crc32c(out.first(kHeaderCrcAt)));
}

std::optional<SegmentHeader> decode_segment_header(ByteView bytes) {
  if (bytes.size() < kSegmentHeaderSize) return std::nullopt;
  if (as_text(bytes.first(kMagic.size())) != kMagic) return std::nullopt;
  if (load_be<std::uint32_t>(bytes.data() + kVersionAt) != kVersion) return std::nullopt;
  if (load_be<std::uint32_t>(bytes.data() + kHeaderCrcAt) != crc32c(bytes.first(kHeaderCrcAt))) {
    return std::nullopt;
  }
  return SegmentHeader{.first_sequence = load_be<std::uint64_t>(bytes.data() + kFirstAt),
                       .salt = load_be<std::uint32_t>(bytes.data() + kSaltAt),
                       .recycled = (load_be<std::uint32_t>(bytes.data() + kFlagsAt) & kRecycled) != 0};
}

void append_record(Buffer& out, std::uint64_t sequence, ByteView payload) {
  std::uint8_t* at = out.extend(kRecordHeaderSize + payload.size());
  store_be<std::uint32_t>(at + kLengthAt, static_cast<std::uint32_t>(payload.size()));
  store_be<std::uint64_t>(at + kSequenceAt, sequence);
  if (!payload.empty()) std::memcpy(at + kRecordHeaderSize, payload.data(), payload.size());
}

std::size_t seal(ByteSpan record, std::uint64_t durable, std::uint32_t salt) {
  std::size_t size = kRecordHeaderSize + load_be<std::uint32_t>(record.data() + kLengthAt);
  assert(size <= record.size());
  store_be<std::uint64_t>(record.data() + kDurableAt, durable);
  store_be<std::uint32_t>(record.data() + kCrcAt, crc32c(record.subspan(kLengthAt, size - kLengthAt), salt));
  return size;
}

std::optional<Record> decode_record(ByteView bytes, std::uint32_t salt) {
  if (bytes.size() < kRecordHeaderSize) return std::nullopt;
  std::size_t length = load_be<std::uint32_t>(bytes.data() + kLengthAt);
  if (length > bytes.size() - kRecordHeaderSize) return std::nullopt;
  std::uint32_t crc = crc32c(bytes.subspan(kLengthAt, kRecordHeaderSize - kLengthAt + length), salt);
  if (load_be<std::uint32_t>(bytes.data() + kCrcAt) != crc) return std::nullopt;
  return Record{.sequence = load_be<std::uint64_t>(bytes.data() + kSequenceAt),
                .durable = load_be<std::uint64_t>(bytes.data() + kDurableAt),
                .payload = bytes.subspan(kRecordHeaderSize, length)};
}

bool proves_durable(ByteView bytes, std::uint64_t missing, std::uint32_t salt) {
  for (std::size_t at = 1; at + kRecordHeaderSize <= bytes.size(); ++at) {
    const std::uint8_t* p = bytes.data() + at;
    std::uint64_t sequence = load_be<std::uint64_t>(p + kSequenceAt);
    if (sequence <= missing || sequence - missing > bytes.size() / kRecordHeaderSize) continue;
    std::uint64_t durable = load_be<std::uint64_t>(p + kDurableAt);
    if (durable < missing || durable >= sequence) continue;
    if (decode_record(bytes.subspan(at), salt)) return true;
  }
  return false;
}

std::size_t torn_bytes(ByteView bytes, std::uint64_t missing, bool recycled) {
  if (!recycled) return bytes.size();
  if (bytes.size() < kRecordHeaderSize) return 0;
  if (load_be<std::uint64_t>(bytes.data() + kSequenceAt) != missing) return 0;
  return std::min<std::size_t>(bytes.size(),
                               kRecordHeaderSize + load_be<std::uint32_t>(bytes.data() + kLengthAt));
}

std::string segment_name(std::uint64_t first_sequence) {
  return fmt::format("{:016x}{}", first_sequence, kSuffix);
}

std::optional<std::uint64_t> parse_segment_name(std::string_view name) {
  if (name.size() != 16 + kSuffix.size() || !name.ends_with(kSuffix)) return std::nullopt;
  std::uint64_t first = 0;
  for (char digit : name.substr(0, 16)) {
    std::string_view::size_type value = std::string_view("0123456789abcdef").find(digit);
    if (value == std::string_view::npos) return std::nullopt;
    first = first << 4 | value;
  }
  return first;
}

}  // namespace slice::storage::log_format
