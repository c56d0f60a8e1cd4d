// Placement: on which sites the names and cells of this volume go, by its name-space policy.
#ifndef SLICE_DIRSERVER_CELLS_PLACEMENT_H
#define SLICE_DIRSERVER_CELLS_PLACEMENT_H

#include <string_view>
#include <vector>

#include "common/config.h"
#include "dirserver/cells/cells.h"
#include "routing/tables.h"

namespace slice::dirserver {

class Placement {
 public:
  Placement(const EnsembleConfig& config, const routing::TableHolder& tables)
      : policy_(config.volume.policy),
        sites_(config.site_counts[static_cast<std::size_t>(ServerRole::kDirectory)]),
        tables_(tables) {}

  // Where `name` is in this directory, or would be: the directory's own site, or under name hashing the
  // name's.
  NamePlace place(const CellRef& directory, std::string_view name) const {
    std::uint64_t hash = tables_.get()->name_hash(directory.fileid, name);
    SiteId site = tables_.get()->name_site(nfs3::Procedure::kLookup, directory.site, hash);
    return {site, directory, position_of(hash), name, hash};
  }

  // Where the attribute cell of a new object goes: to its name, but a directory that mkdir switching
  // redirects.
  SiteId site_of_new(const NamePlace& place, nfs3::FileType type) const {
    auto procedure = type == nfs3::FileType::kDirectory ? nfs3::Procedure::kMkdir : nfs3::Procedure::kCreate;
    return tables_.get()->name_site(procedure, place.site, place.hash);
  }

  // The sites that hold names of this directory, in the order READDIR walks them, from `first` on.
  std::vector<SiteId> name_sites(const CellRef& directory, SiteId first) const {
    if (!hashed()) return {directory.site};
    std::vector<SiteId> sites;
    for (std::uint32_t site = first.value; site < sites_; ++site) sites.push_back(SiteId{site});
    return sites;
  }
  bool may_hold_names(const CellRef& directory, SiteId site) const {
    return hashed() ? site.value < sites_ : site == directory.site;
  }
  std::uint32_t sites() const { return sites_; }

  // Name hashing: a directory's names are on all sites.
  bool hashed() const { return policy_ == VolumeConfig::NamePolicy::kNameHashing; }

 private:
  VolumeConfig::NamePolicy policy_;
  std::uint32_t sites_;
  const routing::TableHolder& tables_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_CELLS_PLACEMENT_H
