// Room for a proxy to fill: what a data server puts where a READ, WRITE or COMMIT reply has the file's
// attributes (docs/formats/file-handle.md, "Room").
#ifndef SLICE_SERVICE_ROOM_H
#define SLICE_SERVICE_ROOM_H

#include <optional>

#include "service/authority_client.h"

namespace slice::service {

// What a data server holds of a file, or just did to it.
struct OwnPart {
  Epoch epoch;                // truncation epoch that `end` belongs to
  std::uint64_t end = 0;      // behind the last byte it has
  std::uint64_t written = 0;  // WRITE: behind the last byte that it wrote; 0: none
  nfs3::Time atime;           // READ: now
  nfs3::Time mtime;           // WRITE: the time it gave the bytes
};

// Nothing where the handle's hint does not promise that a proxy fills it. `handle` is verified: the proxy,
// which cannot verify one, believes what is here of the file and of what was written. `known` may be some
// time old: its size counts as a lower bound, under its epoch; the hint's size, whose epoch nobody knows,
// never does.
nfs3::PostOpAttributes room_for(const routing::FileHandle& handle, const KnownFile& known,
                                const OwnPart& own);

}  // namespace slice::service

#endif  // SLICE_SERVICE_ROOM_H
