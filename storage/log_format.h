// The bytes of a log segment (docs/formats/log.md): its header, its records, and how a reader tells a torn
// tail from corruption. Used by storage/log.cc and its tests only.
#ifndef SLICE_STORAGE_LOG_FORMAT_H
#define SLICE_STORAGE_LOG_FORMAT_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/bytes.h"

namespace slice::storage::log_format {

inline constexpr std::string_view kMagic = "SLICELOG";
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::size_t kSegmentHeaderSize = 32;
inline constexpr std::size_t kRecordHeaderSize = 24;

struct SegmentHeader {
  std::uint64_t first_sequence = 1;
  std::uint32_t salt = 0;  // start value of every record's checksum: bytes of another segment never fit
  bool recycled = false;   // written over an earlier segment, of which bytes may follow the last record
};
void encode(const SegmentHeader& header, ByteSpan out);  // kSegmentHeaderSize bytes
// Nothing where magic, version or checksum do not fit.
std::optional<SegmentHeader> decode_segment_header(ByteView bytes);

struct Record {
  std::uint64_t sequence = 0;
  std::uint64_t durable = 0;  // every record up to this one was durable when this one was written
  ByteView payload;
  std::size_t size() const { return kRecordHeaderSize + payload.size(); }
};
// Room for a record with the sequence in place; seal() completes it.
void append_record(Buffer& out, std::uint64_t sequence, ByteView payload);
// Writes `durable` and the checksum into the record at the start of `record` (its whole size is in it).
// Returns its size.
std::size_t seal(ByteSpan record, std::uint64_t durable, std::uint32_t salt);
// The record at the start of `bytes`; nothing where there is no whole record whose checksum fits.
std::optional<Record> decode_record(ByteView bytes, std::uint32_t salt);

// Behind a record `missing` that does not decode: whether some record in `bytes` proves that it was durable,
// so that its loss is corruption and not a torn tail.
bool proves_durable(ByteView bytes, std::uint64_t missing, std::uint32_t salt);

// How many of `bytes`, behind the last whole record, may be of a batch that was being written: all; where the
// segment is written over an earlier one, those of record `missing` if they begin with it.
std::size_t torn_bytes(ByteView bytes, std::uint64_t missing, bool recycled);

// "00000000000000a1.log" from the first sequence, and back.
std::string segment_name(std::uint64_t first_sequence);
std::optional<std::uint64_t> parse_segment_name(std::string_view name);

}  // namespace slice::storage::log_format

#endif  // SLICE_STORAGE_LOG_FORMAT_H
