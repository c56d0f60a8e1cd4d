// BlockMaps: where the stripes of block-mapped files are, in pieces, durable in a key-value store
// (docs/formats/block-map.md). One loop.
#ifndef SLICE_COORDINATOR_BLOCK_MAPS_H
#define SLICE_COORDINATOR_BLOCK_MAPS_H

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/log.h"
#include "service/context.h"
#include "storage/kv_store.h"
#include "wire/layout.h"

namespace slice::coordinator {

// As BlockMaps::piece(), of a store that nobody changes.
Result<wire::MapPiece> stored_piece(const storage::KvReader& store, FileId file, std::uint64_t number);

class BlockMaps {
 public:
  BlockMaps(service::ServiceContext& context, std::unique_ptr<storage::KvStore> store);

  // As it is durably; without sites where it has none yet. kCorrupt, kIo.
  Result<wire::MapPiece> piece(FileId file, std::uint64_t number) const;
  // Until it ends, and where it does not end well, piece() answers the old one. The same piece is put by one
  // at a time.
  Task<Status> put(FileId file, wire::MapPiece piece);
  // The file is gone for good: all its pieces, durably.
  Task<Status> forget(FileId file);
  // ---- for moves of sites (docs/moves.md) ----
  // As piece(), but as it was put last, durable or not; so do those below.
  Result<wire::MapPiece> latest(FileId file, std::uint64_t number) const {
    return stored_piece(*store_, file, number);
  }
  using Which = std::function<bool(FileId)>;
  // Pieces behind the one with this key, in the order of files; `limit` of all files are looked at.
  struct Page {
    std::vector<wire::MovedPiece> pieces;  // of the wanted files
    std::string last;                      // key
    bool end = false;
  };
  Result<Page> list(const std::string& after, std::size_t limit, const Which& wanted) const;
  // As another coordinator had them; durable with sync(). `version`: as below.
  Status receive(const std::vector<wire::MovedPiece>& pieces, std::uint64_t version);
  // All pieces of these files; durable when it ends well.
  Task<Status> erase(Which which);
  // All that was received is durable when it ends well.
  Task<Status> sync();
  // Of one of these files it is not known which piece is durable, since its disk has failed.
  bool in_doubt(const Which& which) const;
  // No version of layouts up to this one is free, since a run before, or a former owner of a site here, may
  // have given it; 0: all are. kCorrupt, kIo.
  Result<std::uint64_t> former_version() const;
  // This run begins with that version, and gives none that the next could take for its own: durable when it
  // ends well. No clock says so, which may be set back, or be that of another host. kNoSpace: nothing is
  // kept.
  Task<Status> begin_versions(std::uint64_t first);
  // `changed` is called at each change but receive() and erase(); there is one at most.
  void on_change(std::function<void(FileId, std::uint64_t number)> changed) { changed_ = std::move(changed); }

  // For a clean stop: as KvStore::record_end().
  Status record_end() { return store_->record_end(); }

 private:
  Status keep_version(std::uint64_t version, storage::WriteBatch& batch) const;
  void note_failure(FileId file, const Error& error) const;

  service::ServiceContext& context_;
  std::unique_ptr<storage::KvStore> store_;
  std::map<std::pair<FileId, std::uint64_t>, wire::MapPiece>
      old_;  // of pieces whose new ones are not durable
  storage::LogPosition received_;
  std::function<void(FileId, std::uint64_t)> changed_;
  Counter& put_;
  Counter& failures_;
  mutable LogLimiter log_{20};
};

std::string piece_key(FileId file, std::uint64_t number);
std::string encode_piece_record(const wire::MapPiece& piece);
// kCorrupt where it is none.
Result<std::vector<std::uint32_t>> decode_piece_record(std::string_view record);

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_BLOCK_MAPS_H
