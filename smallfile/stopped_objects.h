// StoppedObjects: the files in the data directory of a small-file server that is stopped, for a checker. What
// only its journal has counts; nothing is changed. One loop.
#ifndef SLICE_SMALLFILE_STOPPED_OBJECTS_H
#define SLICE_SMALLFILE_STOPPED_OBJECTS_H

#include <memory>
#include <string>

#include "common/config.h"
#include "common/metrics.h"
#include "routing/tables.h"
#include "service/object_source.h"
#include "smallfile/store.h"
#include "smallfile/zone_store.h"
#include "storage/log_copy.h"
#include "storage/read_only_disk.h"

namespace slice::smallfile {

class StoppedObjects : public service::ObjectSource {
 public:
  // `folder`: the data directory, `disk`: the same. They, `config` and `tables` outlive this. Blocks.
  // kNotFound: it never served. Errors as Store::open().
  static Task<Result<std::unique_ptr<StoppedObjects>>> open(Loop& loop, storage::Disk& disk,
                                                            std::string folder, wire::ServerEntry server,
                                                            const EnsembleConfig& config,
                                                            const routing::RoutingTables& tables);
  StoppedObjects(Loop& loop, storage::Disk& disk, wire::ServerEntry server, VolumeId volume);

  Task<Result<wire::ObjectListResult>> list(wire::ObjectListArgs args) override;
  Task<Result<wire::ObjectStatResult>> stat(wire::ObjectName object) override;

 private:
  Task<Status> open_store(const std::string& folder, const EnsembleConfig& config,
                          const routing::RoutingTables& tables);

  Loop& loop_;
  const VolumeId volume_;
  storage::ReadOnlyDisk disk_;
  DiskZoneStore zones_;
  Metrics metrics_;
  std::unique_ptr<storage::KvStore> records_;
  std::unique_ptr<storage::LogCopy> journal_;
  std::unique_ptr<Store> store_;
};

// As LIST of the object program.
Result<wire::ObjectListResult> list_objects(const Store& store, VolumeId volume,
                                            const wire::ObjectListArgs& args);

}  // namespace slice::smallfile

#endif  // SLICE_SMALLFILE_STOPPED_OBJECTS_H
