// StoppedLayouts: what a coordinator that is stopped has in its data directory of where stripes are, for a
// checker: block maps, and which operations it has begun and not ended. Nothing is changed. One loop.
#ifndef SLICE_COORDINATOR_STOPPED_LAYOUTS_H
#define SLICE_COORDINATOR_STOPPED_LAYOUTS_H

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/loop.h"
#include "coordinator/intention_format.h"
#include "routing/file_handle.h"
#include "storage/kv_store.h"
#include "wire/layout.h"

namespace slice::coordinator {

class StoppedLayouts {
 public:
  // `folder`: the data directory. Blocks. kNotFound: it never served. kCorrupt, kIo.
  static Task<Result<std::unique_ptr<StoppedLayouts>>> open(Loop& loop, const std::string& folder,
                                                            const routing::HandleCodec& handles);

  // Without sites where there is no record of it. kCorrupt, kIo.
  Result<wire::MapPiece> piece(FileId file, std::uint64_t number) const;
  // What its log owes of the file; null: nothing.
  const std::vector<Intention>* owed(FileId file) const;

 private:
  std::unique_ptr<storage::KvStore> maps_;
  std::map<FileId, std::vector<Intention>> owed_;
};

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_STOPPED_LAYOUTS_H
