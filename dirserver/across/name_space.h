// NameSpace: the names and attributes of the volume as they are read, whichever server has them: all that an
// operation which changes nothing works on. One loop.
#ifndef SLICE_DIRSERVER_ACROSS_NAME_SPACE_H
#define SLICE_DIRSERVER_ACROSS_NAME_SPACE_H

#include <optional>

#include "dirserver/across/answer.h"
#include "dirserver/across/directory_parts.h"
#include "dirserver/across/lock_table.h"
#include "dirserver/across/names_page.h"
#include "dirserver/across/peers.h"
#include "dirserver/cells/placement.h"
#include "dirserver/store/cell_store.h"

namespace slice::dirserver {

// What a directory's names are judged by: its cell, or a lease of it.
struct ReadDirectory {
  AttributeCell cell;
  bool leased = false;  // counts and times are not to be shown
};

class NameSpace {
 public:
  // All must outlive this.
  NameSpace(service::ServiceContext& context, CellStore& cells_here, const Placement& places,
            LockTable& locks, Peers& peers, DirectoryParts& parts)
      : cells(cells_here), placement(places), held(locks), context_(context), peers_(peers), parts_(parts) {}

  const VolumeConfig& config() const { return context_.config.volume; }
  std::shared_ptr<const Settings> settings() const { return context_.settings.get(); }
  std::shared_ptr<const routing::RoutingTables> tables() const { return context_.tables.get(); }
  VolumeId id() const { return config().id; }
  nfs3::Time now() const { return nfs3::time_of(context_.loop.wall()); }
  nfs3::Attributes attributes(const AttributeCell& cell) const { return attributes_of(cell, id()); }
  routing::HandleBytes mint(const Target& target) const { return context_.handles.mint(handle_of(target)); }
  Result<routing::FileHandle> open(nfs3::HandleView handle) const { return context_.handles.open(handle); }

  // `shown` grows to what must be durable before a reply leaves, whatever the answer.

  // The object of a handle, which is of this server; STALE where it is gone. Valid until the next use of the
  // cells.
  Answer<const AttributeCell*> read_object(const routing::FileHandle& handle, storage::LogPosition& shown);
  // A cell of any server's, as it is when nothing is about to change it; nothing where it is gone.
  Task<Answer<std::optional<AttributeCell>>> read_cell(CellRef ref, storage::LogPosition& shown);
  // STALE.
  Task<Answer<ReadDirectory>> read_directory(const routing::FileHandle& handle, storage::LogPosition& shown);

  // Names on this server's sites, in the order of cookies, behind `after`. Waits for changes that are
  // prepared.
  Task<Answer<NamesPage>> list_here(CellRef directory, Cookie after, PageLimits limits,
                                    storage::LogPosition& shown);
  // Names on all sites; other servers are asked only where a page is not filled before their first name.
  Task<Answer<NamesPage>> list_everywhere(CellRef directory, Cookie after, PageLimits limits,
                                          storage::LogPosition& shown);

  CellStore& cells;  // this server's
  const Placement& placement;
  LockTable& held;  // of changes over several servers

 private:
  // A page of each of these sites' servers.
  Task<Answer<std::vector<NamesPage>>> list_elsewhere(std::vector<SiteId> others, CellRef directory,
                                                      Cookie after, PageLimits limits);

  service::ServiceContext& context_;
  Peers& peers_;
  DirectoryParts& parts_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_ACROSS_NAME_SPACE_H
