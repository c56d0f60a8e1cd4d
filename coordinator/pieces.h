// Pieces: what files with a layout have whose coordinator this is, piece by piece, for work in the background
// (docs/block-maps.md). One loop.
#ifndef SLICE_COORDINATOR_PIECES_H
#define SLICE_COORDINATOR_PIECES_H

#include <functional>

#include "coordinator/block_maps.h"
#include "coordinator/file_gate.h"
#include "routing/copies.h"

namespace slice::coordinator {

class Pieces {
 public:
  // The file goes up to `end`, as far as is known; that may be before the piece.
  using Visit =
      std::function<Task<void>(routing::FileHandle handle, wire::MapPiece piece, std::uint64_t end)>;
  // All outlive it.
  Pieces(service::ServiceContext& context, FileGate& gate, const BlockMaps& maps)
      : context_(context), gate_(gate), maps_(maps) {}

  // Those with a record, up to the file's size. kUnavailable: a directory server does not say whose they are;
  // kCorrupt, kIo.
  Task<Status> recorded(Visit visit);
  // Those without one of mirrored files that are placed by hash, as far as this storage server has bytes of
  // the file. Errors as above, and where it does not say what it has.
  Task<Status> by_hash(wire::ServerEntry node, Visit visit);
  // Both end soon, kUnavailable.
  void stop() { stopping_ = true; }

 private:
  service::ServiceContext& context_;
  FileGate& gate_;
  const BlockMaps& maps_;
  bool stopping_ = false;
};

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_PIECES_H
