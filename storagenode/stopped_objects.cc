#include "storagenode/stopped_objects.h"

#include <utility>

#include "wire/nfs_status.h"

namespace slice::storagenode {

StoppedObjects::StoppedObjects(Loop& loop, storage::Disk& disk, wire::ServerEntry server)
    : ObjectSource(std::move(server)), disk_(disk), store_(loop, disk_, metrics_, {}, nullptr) {}

Task<Result<wire::ObjectListResult>> StoppedObjects::list(wire::ObjectListArgs args) {
  auto listed = co_await store_.list(args.after, args.limit);
  if (!listed) co_return fail(listed.error(), server().name);
  co_return wire::ObjectListResult{.objects = std::move(listed->objects), .end = listed->end};
}

Task<Result<wire::ObjectStatResult>> StoppedObjects::stat(wire::ObjectName object) {
  auto stat = co_await store_.stat(object, ObjectStore::kMostExtents);
  if (!stat) co_return wire::ObjectStatResult{.status = nfs3::status_of(stat.error()), .extents = {}};
  co_return stat_result(std::move(*stat));
}

wire::ObjectStatResult stat_result(ObjectStore::Stat stat) {
  // An object that only remembers an epoch holds no byte.
  const bool empty = !stat.exists || (stat.end == 0 && stat.extents.empty());
  return {.status = empty ? nfs3::Status::kNoEnt : nfs3::Status::kOk,
          .end = stat.end,
          .allocated = stat.allocated,
          .epoch = stat.epoch,
          .extents = std::move(stat.extents)};
}

}  // namespace slice::storagenode
