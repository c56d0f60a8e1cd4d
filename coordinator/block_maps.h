// BlockMaps: where the stripes of block-mapped files are, in pieces, durable in a key-value store
// (docs/formats/block-map.md). One loop.
#ifndef SLICE_COORDINATOR_BLOCK_MAPS_H
#define SLICE_COORDINATOR_BLOCK_MAPS_H

#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "common/log.h"
#include "service/context.h"
#include "storage/kv_store.h"
#include "wire/layout.h"

namespace slice::coordinator {

class BlockMaps {
 public:
  using OpenStore = std::function<Result<std::unique_ptr<storage::KvStore>>(service::ServiceContext&)>;

  BlockMaps(service::ServiceContext& context, std::unique_ptr<storage::KvStore> store);

  // As it is durably; without sites where it has none yet. kCorrupt, kIo.
  Result<wire::MapPiece> piece(FileId file, std::uint64_t number) const;
  // Until it ends, and where it does not end well, piece() answers the old one. The same piece is put by one
  // at a time.
  Task<Status> put(FileId file, wire::MapPiece piece);
  // The file is gone for good: all its pieces, durably.
  Task<Status> forget(FileId file);
  // For a clean stop: as KvStore::record_end().
  Status record_end() { return store_->record_end(); }

 private:
  Result<wire::MapPiece> stored(FileId file, std::uint64_t number) const;
  void note_failure(FileId file, const Error& error) const;

  std::unique_ptr<storage::KvStore> store_;
  std::map<std::pair<FileId, std::uint64_t>, wire::MapPiece>
      old_;  // of pieces whose new ones are not durable
  Counter& put_;
  Counter& failures_;
  mutable LogLimiter log_{20};
};

std::string encode_piece_record(const wire::MapPiece& piece);
// kCorrupt where it is none.
Result<std::vector<std::uint16_t>> decode_piece_record(std::string_view record);

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_BLOCK_MAPS_H
