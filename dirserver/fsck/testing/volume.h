// TestVolume: the cells of a whole volume, made by hand so that a test can damage exactly what it wants; and
// a source over stores in memory.
#ifndef SLICE_DIRSERVER_FSCK_TESTING_VOLUME_H
#define SLICE_DIRSERVER_FSCK_TESTING_VOLUME_H

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/manual_loop.h"
#include "dirserver/cells/placement.h"
#include "dirserver/fsck/keys.h"
#include "dirserver/fsck/local_source.h"
#include "service/testing/service_fixture.h"
#include "storage/memory_store.h"

namespace slice::dirserver::fsck::testing {

using Policy = VolumeConfig::NamePolicy;

inline EnsembleConfig config_of(Policy policy) {
  EnsembleConfig config = service::testing::sample_config();
  config.volume.policy = policy;
  config.volume.mkdir_probability = 0.5;
  return config;
}

class TestVolume {
 public:
  explicit TestVolume(Policy policy)
      : config_(config_of(policy)),
        tables_(routing::RoutingTables::make(config_, routing::RoutingTables::initial(config_)).value()),
        placement_(config_, tables_) {
    AttributeCell root;
    root.self = target_of(routing::root_handle(config_.volume));
    root.nlink = 2;
    root.parent = root.self.cell;
    cells_[kRootId] = root;
  }

  FileId mkdir(FileId parent, const std::string& name) {
    return make(parent, name, nfs3::FileType::kDirectory);
  }
  FileId create(FileId parent, const std::string& name) {
    return make(parent, name, nfs3::FileType::kRegular);
  }
  void link(FileId file, FileId directory, const std::string& name) {
    ++cells_.at(file).nlink;
    add_name(directory, name, cells_.at(file).self);
  }
  // The name alone: what it points to keeps its link count.
  void unlink(FileId directory, const std::string& name) {
    std::string key = key_of(directory, name);
    Target target = entry(directory, name).target;
    names_.at(key).erase(name);
    if (names_.at(key).entries.empty()) names_.erase(key);
    count(directory, name, target, -1);
  }
  AttributeCell& cell(FileId file) { return cells_.at(file); }
  void erase(FileId file) { cells_.erase(file); }
  NamePlace place(FileId directory, std::string_view name) const {
    return placement_.place(cells_.at(directory).self.cell, name);
  }
  std::string key_of(FileId directory, std::string_view name) const {
    NamePlace at = place(directory, name);
    return name_key(at.site, directory, at.position);
  }
  NameBucket& bucket(FileId directory, std::string_view name) { return names_.at(key_of(directory, name)); }
  NameEntry& entry(FileId directory, std::string_view name) { return *bucket(directory, name).find(name); }
  std::map<std::string, NameBucket>& names() { return names_; }
  std::map<std::string, PartCell>& parts() { return parts_; }
  std::map<std::string, KnownPart>& known() { return known_; }
  std::map<std::string, std::string>& others() { return others_; }
  std::uint64_t& sequence(SiteId site) { return sequences_[site]; }
  // Some other site.
  static SiteId beside(SiteId site) { return SiteId{(site.value + 1) % 64}; }

  // All cells, as stored.
  std::map<std::string, std::string> stored() const {
    std::map<std::string, std::string> all = others_;
    for (const auto& [file, cell] : cells_) {
      const CellRef& ref = cell.self.cell;
      all[attribute_key(ref.site, file)] = encode(cell);
    }
    for (const auto& [key, bucket] : names_) all[key] = encode(bucket);
    for (const auto& [key, part] : parts_) all[key] = encode(part);
    for (const auto& [key, part] : known_) all[key] = encode(part);
    for (const auto& [site, next] : sequences_) all[sequence_key(site)] = encode_number(next);
    return all;
  }
  const EnsembleConfig& config() const { return config_; }
  const Placement& placement() const { return placement_; }

 private:
  FileId make(FileId parent, const std::string& name, nfs3::FileType type) {
    NamePlace at = place(parent, name);
    SiteId site = placement_.site_of_new(at, type);
    auto& next = sequences_.try_emplace(site, site == kRootSite ? 2 : 1).first->second;
    FileId file{std::uint64_t{site.value} << kSequenceBits | next++};
    AttributeCell cell;
    cell.self = {.cell = {site, file, static_cast<std::uint32_t>(file.value * 7) | 1},
                 .type = type,
                 .stripe_shift = 16,
                 .cell_key = at.hash};
    cell.mode = 0755;
    cell.nlink = type == nfs3::FileType::kDirectory ? 2 : 1;
    if (cell.directory()) cell.parent = cells_.at(parent).self.cell;
    cells_[file] = cell;
    add_name(parent, name, cell.self);
    return file;
  }
  void add_name(FileId directory, const std::string& name, const Target& target) {
    names_[key_of(directory, name)].insert(name, target);
    count(directory, name, target, 1);
  }
  // A name more or less.
  void count(FileId directory, const std::string& name, const Target& target, int by) {
    SiteId site = place(directory, name).site;
    AttributeCell& cell = cells_.at(directory);
    int subdirectories = target.type == nfs3::FileType::kDirectory ? by : 0;
    cell.nlink += static_cast<std::uint32_t>(subdirectories);
    if (site == cell.self.cell.site) {
      cell.entries += static_cast<std::uint64_t>(by);
      return;
    }
    PartCell& part = parts_[part_key(site, directory)];
    part.directory = cell.self.cell;
    part.entries += static_cast<std::uint64_t>(by);
    part.subdirectories += static_cast<std::uint64_t>(subdirectories);
    if (part.entries == 0) parts_.erase(part_key(site, directory));
    if (subdirectories == 0) return;
    KnownPart& known = known_[known_part_key(cell.self.cell.site, directory, site)];
    ++known.version;
    known.subdirectories += static_cast<std::uint64_t>(subdirectories);
  }

  EnsembleConfig config_;
  routing::TableHolder tables_;
  Placement placement_;
  std::map<FileId, AttributeCell> cells_;
  std::map<std::string, NameBucket> names_;
  std::map<std::string, PartCell> parts_;
  std::map<std::string, KnownPart> known_;
  std::map<SiteId, std::uint64_t> sequences_;
  std::map<std::string, std::string> others_;
};

inline void apply(storage::KvStore& store, const std::map<std::string, std::string>& cells) {
  storage::WriteBatch batch;
  for (const auto& [key, value] : cells) batch.put(key, value);
  ASSERT_TRUE(store.apply(batch).has_value());
}

// For a LocalSource: one server's store in memory, with these cells. `loop` and `medium` outlive it.
inline std::vector<LocalSource::Store> stores_of(Loop& loop, storage::MemoryMedium& medium,
                                                 const std::map<std::string, std::string>& cells) {
  auto store = std::make_unique<storage::MemoryStore>(loop, medium);
  testing::apply(*store, cells);
  std::vector<LocalSource::Store> stores;
  stores.push_back({.server = "dir1", .cells = std::move(store), .claim = {}});
  return stores;
}

}  // namespace slice::dirserver::fsck::testing

#endif  // SLICE_DIRSERVER_FSCK_TESTING_VOLUME_H
