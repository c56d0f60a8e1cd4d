// Tree: the parents of all directories, and whether the root leads to each. 16 bytes a directory.
#ifndef SLICE_DIRSERVER_FSCK_TREE_H
#define SLICE_DIRSERVER_FSCK_TREE_H

#include <cstdint>
#include <deque>
#include <vector>

#include "dirserver/cells/cells.h"

namespace slice::dirserver::fsck {

class Tree {
 public:
  explicit Tree(std::uint64_t max_bytes) : limit_(max_bytes / kBytesEach) {}

  // In the order of fileIDs.
  void add(FileId directory, FileId parent) {
    if (edges_.size() < limit_) edges_.push_back({directory, parent});
    ++directories_;
  }
  // False where there was no memory for all directories: cycles() cannot answer.
  bool whole() const { return directories_ == edges_.size(); }
  // One directory of each cycle, the one with the smallest fileID.
  std::vector<FileId> cycles() const;

 private:
  static constexpr std::uint64_t kBytesEach = 20;  // with what cycles() needs
  struct Edge {
    FileId directory, parent;
  };
  std::size_t find(FileId directory) const;  // edges_.size(): none
  std::uint64_t limit_;
  std::uint64_t directories_ = 0;
  std::deque<Edge> edges_;
};

}  // namespace slice::dirserver::fsck

#endif  // SLICE_DIRSERVER_FSCK_TREE_H
