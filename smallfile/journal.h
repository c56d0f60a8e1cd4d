// The records of the small-file server's journal (storage/log.h). They say what happened to one file's bytes,
// not where these lie. Format: docs/formats/smallfile-store.md.
#ifndef SLICE_SMALLFILE_JOURNAL_H
#define SLICE_SMALLFILE_JOURNAL_H

#include <cstdint>

#include "common/bytes.h"
#include "common/ids.h"
#include "common/result.h"
#include "wire/nfs3.h"

namespace slice::smallfile {

struct JournalRecord {
  enum class Kind : std::uint8_t { kWrite = 1, kTruncate = 2, kRemove = 3 };
  Kind kind = Kind::kWrite;
  Epoch epoch;
  FileId file;
  nfs3::Time mtime;          // of a write
  std::uint64_t offset = 0;  // of a write; the size of a truncation
  ByteView data;             // of a write: a view into what was decoded
};
inline constexpr std::size_t kJournalHeaderSize = 32;

void encode(const JournalRecord& record, Buffer& out);  // replaces what is in `out`
// kCorrupt for a record of another version, of an unknown kind, or cut short.
Result<JournalRecord> decode_journal_record(ByteView bytes);

}  // namespace slice::smallfile

#endif  // SLICE_SMALLFILE_JOURNAL_H
