// File: one file's bytes below the threshold as they are in memory: its logical blocks, which of them are
// newer than what the zone holds, and which bytes are not in the journal yet. Everything here is immediate:
// the store loads and saves around it. One loop.
#ifndef SLICE_SMALLFILE_FILE_H
#define SLICE_SMALLFILE_FILE_H

#include <cstdint>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "common/bytes.h"
#include "common/ids.h"
#include "common/task.h"
#include "smallfile/map_record.h"

namespace slice::smallfile {

// A range of bytes within a block that holds every byte added to it.
struct Hull {
  std::uint32_t from = 0, to = 0;
  bool empty() const { return from == to; }
  void add(Hull other);
  void cut(std::uint32_t at);
};

struct Block {
  Extent extent;            // stored == 0: it has no place in the zone
  std::uint32_t valid = 0;  // bytes [0, valid) are the file's, behind them are zeros
  std::uint32_t capacity = 0;
  std::unique_ptr<std::uint8_t[]> data;  // none: in the zone only, or a hole
  bool dirty = false;                    // newer than the extent
  bool flushing = false;                 // on its way to the extent
  Hull unlogged;                         // written, and in no journal record
  Hull unlogged_flushing;                // the same, on its way to the zone

  bool absent() const { return valid > 0 && !data; }
  bool holds_zone() const { return extent.stored > 0; }
};

struct File {
  explicit File(Loop& loop, FileId its_id, SiteId its_site) : id(its_id), site(its_site), loading(loop) {}

  // Where [offset, offset + length) cannot be written or read before a block is loaded: that block's index.
  std::optional<std::uint32_t> to_load(std::uint64_t offset, std::size_t length, bool for_write) const;
  // Puts what the zone holds into an absent block.
  void install(std::uint32_t index, std::unique_ptr<std::uint8_t[]> data, std::uint32_t capacity);
  // Nothing in the range is to be loaded. Bytes behind the end read as zeros.
  void read(std::uint64_t offset, ByteSpan into) const;
  void write(std::uint64_t offset, ByteView bytes);
  // The bytes just written are in no journal record.
  void note_unlogged(std::uint64_t offset, std::size_t length);
  bool has_unlogged() const;
  void cut(std::uint64_t size);
  // What the key-value store is to hold.
  MapRecord record(std::uint64_t applied) const;
  void restore(const MapRecord& record);
  std::size_t footprint() const;
  // Bytes that are no holes, in whole blocks of 4 KiB, as the authority counts a file without holes.
  std::uint64_t stored() const;
  // Of these, those of the units of 4 KiB that [first, last) touches.
  std::uint64_t stored_in(std::uint64_t first, std::uint64_t last) const;

  const FileId id;
  const SiteId site;
  Epoch epoch;
  nfs3::Time mtime;
  std::uint64_t end = 0;      // one past the last byte written here
  std::uint64_t applied = 0;  // of the saved map record
  std::vector<Block> blocks;
  std::vector<Extent> freed;  // since the last snapshot: the room goes back when the next one is durable

  bool removed = false;
  bool saved = false;              // the key-value store has a map record
  std::uint64_t first_logged = 0;  // oldest journal record that no durable map record contains; 0: none
  Epoch reported_epoch;            // what the authority was told last
  std::uint64_t reported_end = 0;
  nfs3::Time reported_mtime;

  // The table's: see file_table.h.
  AsyncMutex loading;
  int pins = 0;
  bool dirty = false;
  bool flushing = false;
  std::size_t charged = 0, dirty_charged = 0;
  std::list<File*>::iterator idle_at;
  bool idle = false;  // stands in FileTable's list
  bool used = false;  // since the last look for one to drop

 private:
  Block& writable(std::uint32_t index, std::uint32_t valid);
  std::size_t data_bytes_ = 0;
};

}  // namespace slice::smallfile

#endif  // SLICE_SMALLFILE_FILE_H
