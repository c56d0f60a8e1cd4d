#include "smallfile/journal.h"

namespace slice::smallfile {
namespace {
constexpr std::uint8_t kJournalVersion = 1;
}

void encode(const JournalRecord& record, Buffer& out) {
  out.clear();
  std::uint8_t* at = out.extend(kJournalHeaderSize);
  at[0] = kJournalVersion;
  at[1] = static_cast<std::uint8_t>(record.kind);
  at[2] = at[3] = 0;
  store_be<std::uint32_t>(at + 4, record.epoch.value);
  store_be<std::uint64_t>(at + 8, record.file.value);
  store_be<std::uint32_t>(at + 16, record.mtime.seconds);
  store_be<std::uint32_t>(at + 20, record.mtime.nanoseconds);
  store_be<std::uint64_t>(at + 24, record.offset);
  out.append(record.data);
}

Result<JournalRecord> decode_journal_record(ByteView bytes) {
  if (bytes.size() < kJournalHeaderSize || bytes[0] != kJournalVersion) {
    return fail(Errc::kCorrupt, "a journal record of {} bytes, version {}", bytes.size(),
                bytes.empty() ? 0 : bytes[0]);
  }
  if (bytes[1] < 1 || bytes[1] > 3) return fail(Errc::kCorrupt, "a journal record of kind {}", bytes[1]);
  const std::uint8_t* at = bytes.data();
  return JournalRecord{.kind = static_cast<JournalRecord::Kind>(bytes[1]),
                       .epoch = {load_be<std::uint32_t>(at + 4)},
                       .file = {load_be<std::uint64_t>(at + 8)},
                       .mtime = {load_be<std::uint32_t>(at + 16), load_be<std::uint32_t>(at + 20)},
                       .offset = load_be<std::uint64_t>(at + 24),
                       .data = bytes.subspan(kJournalHeaderSize)};
}

}  // namespace slice::smallfile
