// StoppedObjects: the objects in the data directory of a storage node that is stopped, for a checker. One
// loop.
#ifndef SLICE_STORAGENODE_STOPPED_OBJECTS_H
#define SLICE_STORAGENODE_STOPPED_OBJECTS_H

#include "common/metrics.h"
#include "service/object_source.h"
#include "storage/read_only_disk.h"
#include "storagenode/object_store.h"

namespace slice::storagenode {

class StoppedObjects : public service::ObjectSource {
 public:
  // `disk`: the data directory; it outlives this.
  StoppedObjects(Loop& loop, storage::Disk& disk, wire::ServerEntry server);
  Task<Result<wire::ObjectListResult>> list(wire::ObjectListArgs args) override;
  // An object whose file was never synced has a status that is neither kOk nor kNoEnt: its server would
  // repair it when it starts.
  Task<Result<wire::ObjectStatResult>> stat(wire::ObjectName object) override;

 private:
  storage::ReadOnlyDisk disk_;
  Metrics metrics_;
  ObjectStore store_;
};

// As STAT answers it.
wire::ObjectStatResult stat_result(ObjectStore::Stat stat);

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_STOPPED_OBJECTS_H
