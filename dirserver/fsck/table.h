// Table: what a pass keeps of attribute cells, as small as it can be, for one stretch of fileIDs; and what it
// counted of them in name cells.
#ifndef SLICE_DIRSERVER_FSCK_TABLE_H
#define SLICE_DIRSERVER_FSCK_TABLE_H

#include <algorithm>
#include <cstdint>
#include <deque>

#include "dirserver/cells/cells.h"

namespace slice::dirserver::fsck {

// Of a target's generation, tree, type, flags, stripe shift and cell key: different ones differ, but for one
// in 2^32.
inline std::uint32_t print_of(const Target& target) {
  std::uint64_t mix = (target.cell_key ^ std::uint64_t{target.tree.value} << 48) * 0x9e3779b97f4a7c15ull;
  mix ^= std::uint64_t{target.cell.generation} << 32 | std::uint64_t{target.flags} << 16 |
         std::uint64_t{target.stripe_shift} << 8 | static_cast<std::uint64_t>(target.type);
  mix = (mix ^ mix >> 29) * 0xbf58476d1ce4e5b9ull;
  return static_cast<std::uint32_t>(mix >> 32);
}

// Whether it can be in a directory of that tree: it is of the same, or the directory of a tree of its own.
inline bool may_be_in(TreeId tree, const Target& target) {
  const bool own = target.type == nfs3::FileType::kDirectory && target.tree != TreeId{};
  return target.tree == tree || own;
}

struct FileEntry {
  FileId file;
  std::uint32_t print = 0;
  std::uint32_t nlink = 0;
  std::uint32_t names = 0;
  bool truncating = false;
  bool record = false;  // there is a truncation record
};

struct DirectoryEntry {
  FileId file;
  FileId parent;
  std::uint64_t entries = 0;         // as it says
  std::uint64_t counted = 0;         // names on its own site
  std::uint64_t subdirectories = 0;  // on its own site, and those that its known parts say
  std::uint64_t parts = 0;           // sum over what known parts say, less what parts say: 0 where they agree
  std::uint32_t print = 0;
  std::uint32_t generation = 0;
  std::uint32_t nlink = 0;
  std::uint32_t names = 0;
  TreeId tree;
};

class Table {
 public:
  // In the order of fileIDs.
  void add(const AttributeCell& cell) {
    const Target& self = cell.self;
    if (cell.directory()) {
      directories_.push_back({.file = self.cell.fileid,
                              .parent = cell.parent.fileid,
                              .entries = cell.entries,
                              .print = print_of(self),
                              .generation = self.cell.generation,
                              .nlink = cell.nlink,
                              .tree = self.tree});
    } else {
      files_.push_back({.file = self.cell.fileid,
                        .print = print_of(self),
                        .nlink = cell.nlink,
                        .truncating = cell.truncating});
    }
  }
  // Null where there is none.
  FileEntry* file(FileId id) { return find(files_, id); }
  DirectoryEntry* directory(FileId id) { return find(directories_, id); }

  std::uint64_t bytes() const {
    return files_.size() * sizeof(FileEntry) + directories_.size() * sizeof(DirectoryEntry);
  }
  std::deque<FileEntry>& files() { return files_; }
  std::deque<DirectoryEntry>& directories() { return directories_; }

 private:
  template <class Entries>
  static auto find(Entries& entries, FileId id) -> decltype(&entries.front()) {
    auto at = std::lower_bound(entries.begin(), entries.end(), id,
                               [](const auto& entry, FileId wanted) { return entry.file < wanted; });
    return at == entries.end() || at->file != id ? nullptr : &*at;
  }
  std::deque<FileEntry> files_;
  std::deque<DirectoryEntry> directories_;
};

}  // namespace slice::dirserver::fsck

#endif  // SLICE_DIRSERVER_FSCK_TABLE_H
