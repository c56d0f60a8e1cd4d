#include "tests/sim/store_check.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "common/bytes.h"
#include "dirserver/cells/cells.h"

namespace slice::sim {
namespace {

using dirserver::CellKind;

constexpr std::size_t kKindAt = 4;       // behind the site
constexpr std::size_t kDirectoryAt = 5;  // in the key of a name cell

// Of work that is under way: erased when it is done.
bool owed(CellKind kind) {
  switch (kind) {
    case CellKind::kReclaim:
    case CellKind::kTruncation:
    case CellKind::kIntention:
    case CellKind::kPrepared:
    case CellKind::kOwedTouch:
      return true;
    default:
      return false;
  }
}

class StoreCheck {
 public:
  explicit StoreCheck(const Model& tree) : tree_(tree) {}

  void read(const storage::KvStore& store) {
    auto at = store.iterate("", std::string(8, '\xff'));
    for (; at->valid(); at->next()) look_at(at->key(), at->value());
    if (!at->status()) wrong("a store cannot be read: {}", at->status().error().message);
  }

  std::string compare() {
    for (const auto& [id, node] : tree_.nodes()) {
      if (!cells_.contains(id)) wrong("{:x} has no attribute cell", id);
      for (const auto& [name, target] : node->names) {
        auto found = names_.find({id, name});
        if (found == names_.end()) {
          wrong("{:x}/{} has no name cell", id, name);
        } else if (found->second != target) {
          wrong("{:x}/{} leads to {:x}, not {:x}", id, name, found->second, target);
        }
      }
    }
    for (const auto& [place, target] : names_) {
      const Model::Node* directory = tree_.find(place.first);
      if (directory == nullptr || !directory->names.contains(place.second)) {
        wrong("a name cell {:x}/{} -> {:x} that is in no tree", place.first, place.second, target);
      }
    }
    for (const auto& [place, count] : counts_) {
      if (count.said == count.there) continue;
      wrong("{:x} has {} names on site {}, its count says {}", place.first, count.there, place.second.value,
            count.said);
    }
    return wrong_;
  }

 private:
  struct Count {
    std::uint64_t there = 0, said = 0;
  };

  template <class... Args>
  void wrong(fmt::format_string<Args...> format, Args&&... args) {
    wrong_ += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }

  void look_at(std::string_view key, std::string_view value) {
    if (key.size() <= kKindAt) return wrong("a key of {} bytes", key.size());
    auto kind = static_cast<CellKind>(key[kKindAt]);
    SiteId site{load_be<std::uint32_t>(as_bytes(key).data())};
    if (owed(kind))
      wrong("site {} still has a record of kind {}, number {:x}", site.value, key[kKindAt],
            dirserver::last_number(key));
    if (kind == CellKind::kAttributes) look_at_cell(site, dirserver::last_number(key), value);
    if (kind == CellKind::kName) look_at_names(site, key, value);
    if (kind == CellKind::kPart) look_at_part(site, key, value);
  }

  void look_at_cell(SiteId site, ObjectId id, std::string_view value) {
    auto cell = dirserver::decode_attribute_cell(site, value);
    if (!cell) return wrong("attribute cell {:x}: {}", id, cell.error().message);
    if (!cells_.insert(id).second) wrong("{:x} has two attribute cells", id);
    const Model::Node* node = tree_.find(id);
    if (node == nullptr) return wrong("attribute cell {:x} of site {} is in no tree", id, site.value);
    std::uint32_t links = node->directory() ? tree_.links_of_directory(*node) : node->nlink;
    if (cell->nlink != links) wrong("attribute cell {:x} has {} links, not {}", id, cell->nlink, links);
    if (cell->truncating) wrong("attribute cell {:x} is still being truncated", id);
    if (cell->directory()) counts_[{id, site}].said += cell->entries;
    if (cell->directory() && cell->parent.fileid.value != node->parent) {
      wrong("directory {:x} has the parent {:x}, not {:x}", id, cell->parent.fileid.value, node->parent);
    }
  }

  void look_at_part(SiteId site, std::string_view key, std::string_view value) {
    auto part = dirserver::decode_part(value);
    if (!part) return wrong("a part cell: {}", part.error().message);
    counts_[{dirserver::last_number(key), site}].said += part->entries;
  }

  void look_at_names(SiteId site, std::string_view key, std::string_view value) {
    auto bucket = dirserver::decode_name_bucket(value);
    if (!bucket) return wrong("a name cell: {}", bucket.error().message);
    auto directory = load_be<std::uint64_t>(as_bytes(key).data() + kDirectoryAt);
    counts_[{directory, site}].there += bucket->entries.size();
    for (const dirserver::NameEntry& entry : bucket->entries) {
      if (!names_.emplace(std::pair(directory, entry.name), entry.target.cell.fileid.value).second) {
        wrong("{:x}/{} is there twice", directory, entry.name);
      }
    }
  }

  const Model& tree_;
  std::string wrong_;
  std::set<ObjectId> cells_;
  std::map<std::pair<ObjectId, std::string>, ObjectId> names_;
  std::map<std::pair<ObjectId, SiteId>, Count> counts_;  // a directory's names on a site
};

}  // namespace

std::string check_stores(const std::vector<const storage::KvStore*>& stores, const Model& tree) {
  StoreCheck check(tree);
  for (const storage::KvStore* store : stores) check.read(*store);
  return check.compare();
}

}  // namespace slice::sim
