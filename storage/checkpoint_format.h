// What a LoggedStore writes (docs/formats/logged-store.md): the records of its log, the list of a
// checkpoint's files, and how far a copy goes. Decoders trust no length.
#ifndef SLICE_STORAGE_CHECKPOINT_FORMAT_H
#define SLICE_STORAGE_CHECKPOINT_FORMAT_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/bytes.h"
#include "storage/kv_store.h"

namespace slice::storage::checkpoint_format {

// Up to where a copy, or a checkpoint, has all that the log has: this record, which was written in this run
// of the store. Two with the same numbers are the same record, and so is all before it.
struct Position {
  std::uint64_t sequence = 0;  // 0: nothing
  std::uint64_t run = 0;
  bool operator==(const Position&) const = default;
};

// A batch as a record.
Buffer encode_batch(std::uint64_t run, const WriteBatch& batch);
struct Batch {
  std::uint64_t run = 0;
  WriteBatch changes;
};
std::optional<Batch> decode_batch(ByteView record);

struct TableFile {
  std::string name;    // in the copy's folder
  std::string stored;  // on the disk, in NAME.tables
  std::uint64_t size = 0;
  std::uint32_t crc = 0;  // CRC32C of its bytes
};
struct Checkpoint {
  Position position;
  std::uint64_t number = 0;   // grows
  std::uint64_t lineage = 0;  // of the copy that it was made of: the same name there is the same file
  std::vector<TableFile> files;
};
inline constexpr std::size_t kMaxTableFiles = 100000;
Buffer encode(const Checkpoint& checkpoint);
std::optional<Checkpoint> decode_checkpoint(ByteView bytes);

std::string encode(const Position& position);
std::optional<Position> decode_position(std::string_view bytes);

}  // namespace slice::storage::checkpoint_format

#endif  // SLICE_STORAGE_CHECKPOINT_FORMAT_H
