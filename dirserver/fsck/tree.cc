#include "dirserver/fsck/tree.h"

#include <algorithm>

namespace slice::dirserver::fsck {

std::size_t Tree::find(FileId directory) const {
  auto at = std::lower_bound(edges_.begin(), edges_.end(), directory,
                             [](const Edge& edge, FileId wanted) { return edge.directory < wanted; });
  return at == edges_.end() || at->directory != directory ? edges_.size()
                                                          : static_cast<std::size_t>(at - edges_.begin());
}

std::vector<FileId> Tree::cycles() const {
  std::vector<FileId> found;
  // The walk that came by first, from 1; a walk that meets itself has gone round.
  std::vector<std::uint32_t> walk(edges_.size(), 0);
  std::uint32_t number = 0;
  for (std::size_t start = 0; start < edges_.size(); ++start) {
    ++number;
    std::size_t at = start;
    while (at < edges_.size() && walk[at] == 0 && edges_[at].directory != kRootId) {
      walk[at] = number;
      at = find(edges_[at].parent);
    }
    if (at == edges_.size() || walk[at] != number) continue;
    FileId smallest = edges_[at].directory;
    for (std::size_t next = find(edges_[at].parent); next != at; next = find(edges_[next].parent)) {
      smallest = std::min(smallest, edges_[next].directory);
    }
    found.push_back(smallest);
  }
  return found;
}

}  // namespace slice::dirserver::fsck
