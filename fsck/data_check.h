// check_data: whether the bytes that files have by their attribute cells are on data servers, and nothing
// else is: `slicectl fsck --data`. One pass over all attribute cells and, beside them in the same order, the
// objects of every data server; then each file that looked odd by itself. Where servers serve meanwhile, only
// what stands is a finding, as with names (dirserver/fsck/checker.h).
#ifndef SLICE_FSCK_DATA_CHECK_H
#define SLICE_FSCK_DATA_CHECK_H

#include <functional>
#include <memory>
#include <vector>

#include "common/loop.h"
#include "dirserver/fsck/checker.h"
#include "dirserver/fsck/finding.h"
#include "dirserver/fsck/source.h"
#include "routing/file_handle.h"
#include "routing/tables.h"
#include "service/object_source.h"
#include "wire/layout.h"
#include "wire/moves.h"

namespace slice::fsck {

// What a coordinator has begun with a file, and not ended.
struct UnderWay {
  bool removal = false;
  struct Move {
    std::uint64_t stripe = 0;
    SiteId from, to;
  };
  std::vector<Move> moves;
};

struct DataSeams {
  dirserver::fsck::CellSource& cells;
  // Of every data server that holds sites, or held some.
  const std::vector<std::unique_ptr<service::ObjectSource>>& servers;
  const std::shared_ptr<const routing::RoutingTables>& tables;  // as it is at each moment
  const EnsembleConfig& config;
  Loop& loop;
  // Moves of sites that go on: both servers may have bytes of them. As it is at each moment; null: none do.
  const std::vector<wire::SiteMove>* moves = nullptr;
  // Brings tables and moves up to date, before files are looked at once more. None: they do not change.
  std::function<Task<Status>()> refresh = nullptr;
  // The piece of the map of a file with a layout that has this stripe. kNotFound: it cannot be had, and where
  // the file's bytes should be is not checked.
  std::function<Task<Result<wire::MapPiece>>(routing::FileHandle, std::uint64_t stripe)> map_piece;
  // None: by the time a file is looked at once more it has ended.
  std::function<UnderWay(FileId)> under_way = nullptr;
};

// Adds to `report`. An error: cells, or what a server has, cannot be read.
Task<Status> check_data(const DataSeams& seams, const dirserver::fsck::Options& options,
                        dirserver::fsck::Report& report);

}  // namespace slice::fsck

#endif  // SLICE_FSCK_DATA_CHECK_H
