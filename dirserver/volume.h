// Volume: one volume's name space as this server holds it, put together from its rooms. Operations see of it
// what they may touch (ops/ops.h). One loop.
#ifndef SLICE_DIRSERVER_VOLUME_H
#define SLICE_DIRSERVER_VOLUME_H

#include "dirserver/across/directory_parts.h"
#include "dirserver/across/intentions.h"
#include "dirserver/across/name_space.h"
#include "dirserver/across/participant.h"
#include "dirserver/background/cuts.h"
#include "dirserver/background/data_servers.h"
#include "dirserver/background/lock_grants.h"
#include "dirserver/background/members.h"
#include "dirserver/background/new_directories.h"
#include "dirserver/background/quota_keeper.h"
#include "dirserver/background/reclaimer.h"
#include "dirserver/background/space.h"
#include "dirserver/background/truncations.h"
#include "dirserver/cells/placement.h"
#include "dirserver/ops/change.h"
#include "dirserver/store/cell_store.h"
#include "dirserver/store/duplicate_cache.h"
#include "service/context.h"
#include "service/file_locks.h"

namespace slice::dirserver {

class Volume {
 public:
  // Both must outlive this.
  Volume(service::ServiceContext& context, storage::KvStore& store,
         DuplicateCache::Options duplicate_options = {});

  // Makes the root at the first start; else checks that the store is of this volume and configuration
  // (kInvalid), and goes on with what a crash interrupted. Nothing may be served before it ends well. From
  // then on sites come and go with the tables, which go by the server's record.
  Task<Status> start();
  // What is set for everybody has become other.
  void settings_changed() { quotas.settings_changed(sites()); }
  // No new work in the background; what is under way ends within its time-outs.
  void stop();

  service::ServiceContext& context;
  Stays stays;
  Peers peers;
  CellStore cells;
  Placement placement;
  service::FileLocks locks;  // of truncations
  LockTable held;            // of changes over several servers
  LockGrants grants;         // of clients' locks
  DuplicateCache duplicates;
  Members members;
  SpaceMonitor space;
  NewDirectories new_directories;
  QuotaKeeper quotas;
  DataServers servers;
  Truncations truncations;
  Cuts cuts;
  Reclaimer reclaimer;
  DirectoryParts parts;
  Intentions intentions;
  Participant participant;
  NameSpace names;
  Changes changes;

 private:
  Task<Status> create(std::string format);
  Status recover(SiteId site);
  // Those that it has by the tables; and those that it has taken up, and not let go.
  std::vector<SiteId> owned() const;
  std::vector<SiteId> sites() const;
  void follow_tables();
  Status adopt(SiteId site);
  void release(SiteId site);
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_VOLUME_H
