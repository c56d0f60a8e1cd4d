// find_only_copies: which files have bytes on one storage server and nowhere else: what is lost with it,
// before it is given up (`slicectl server remove --lost`, docs/operations.md). Asks that server nothing.
#ifndef SLICE_FSCK_ONLY_COPIES_H
#define SLICE_FSCK_ONLY_COPIES_H

#include <functional>
#include <string_view>
#include <vector>

#include "common/config.h"
#include "dirserver/fsck/source.h"
#include "routing/file_handle.h"
#include "routing/tables.h"
#include "wire/layout.h"
#include "wire/moves.h"

namespace slice::fsck {

struct OnlyCopiesSeams {
  dirserver::fsck::CellSource& cells;
  const routing::RoutingTables& tables;
  const VolumeConfig& volume;
  // Those that go on: sites on their way to the server may be there by now.
  const std::vector<wire::SiteMove>& moves;
  // The piece of a block-mapped file's map that has this stripe.
  std::function<Task<Result<wire::MapPiece>>(routing::FileHandle, std::uint64_t stripe)> map_piece;
};

struct OnlyCopies {
  struct File {
    FileId file;
    std::uint64_t size = 0;
    std::vector<std::string> paths;  // find_paths()
  };
  std::uint64_t found = 0;  // files
  std::vector<File> files;  // the first ones, in the order of sites and fileIDs
};

// Files with one copy that have a stripe between the volume's threshold and their end on this server; a
// stripe that nobody has written counts, too, since who could tell is that server. At most `limit` are
// listed. An error: cells, or maps, cannot be read.
Task<Result<OnlyCopies>> find_only_copies(OnlyCopiesSeams seams, std::uint32_t server, std::uint64_t limit);

// As slice-fsck prints them.
std::string render(const OnlyCopies& found, std::string_view server, bool json);

}  // namespace slice::fsck

#endif  // SLICE_FSCK_ONLY_COPIES_H
