// ZoneStore: where zones are kept. A zone is a storage object, one a site: a sparse run of bytes. Now files
// of the data directory; objects on storage nodes can stand behind the same interface.
#ifndef SLICE_SMALLFILE_ZONE_STORE_H
#define SLICE_SMALLFILE_ZONE_STORE_H

#include <map>
#include <memory>
#include <string>

#include "common/bytes.h"
#include "common/ids.h"
#include "common/result.h"
#include "common/task.h"
#include "storage/disk.h"

namespace slice::smallfile {

// Errors are those of storage::File. Operations may overlap; the caller orders those that must not.
class ZoneStore {
 public:
  ZoneStore() = default;
  ZoneStore(const ZoneStore&) = delete;
  ZoneStore& operator=(const ZoneStore&) = delete;
  virtual ~ZoneStore() = default;

  // Reads all of `into`; kCorrupt where the zone ends before.
  virtual Task<Status> read(SiteId zone, std::uint64_t offset, ByteSpan into) = 0;
  virtual Task<Status> write(SiteId zone, std::uint64_t offset, ByteView bytes) = 0;
  // After an error everything written since the last sync that went well is to be written again.
  virtual Task<Status> sync(SiteId zone) = 0;
  // Gives the bytes from `size` on back, where there are any.
  virtual Task<Status> shrink(SiteId zone, std::uint64_t size) = 0;
};

// Zones as files `zones/0000002a.zone` (the site, in hexadecimal) of the data directory.
class DiskZoneStore final : public ZoneStore {
 public:
  DiskZoneStore(Loop& loop, storage::Disk& disk) : disk_(disk), opening_(loop) {}
  static std::string path(SiteId zone);

  Task<Status> read(SiteId zone, std::uint64_t offset, ByteSpan into) override;
  Task<Status> write(SiteId zone, std::uint64_t offset, ByteView bytes) override;
  Task<Status> sync(SiteId zone) override;
  Task<Status> shrink(SiteId zone, std::uint64_t size) override;

 private:
  using Shared = std::shared_ptr<storage::File>;  // with operations under way, which close it at last
  Task<Result<Shared>> open(SiteId zone);

  storage::Disk& disk_;
  AsyncMutex opening_;
  std::map<SiteId, Shared> files_;
};

}  // namespace slice::smallfile

#endif  // SLICE_SMALLFILE_ZONE_STORE_H
