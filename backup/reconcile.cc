#include "backup/reconcile.h"

#include <algorithm>

namespace slice::backup {
namespace {

bool stores_bytes(const dirserver::AttributeCell& cell, nfs3::Time told) {
  if (!cell.stored || cell.mtime > told) return cell.size > 0;  // without `stored`: of before servers told
  return std::any_of(cell.stored->begin(), cell.stored->end(),
                     [](const dirserver::StoredPart& part) { return part.bytes > 0; });
}

}  // namespace

Since reconcile(dirserver::AttributeCell& cell, const std::vector<Found>& found, nfs3::Time now,
                nfs3::Time told) {
  Since since = Since::kNothing;
  if (found.empty()) {
    if (!stores_bytes(cell, told)) return since;
    cell.cut(0);
    cell.truncating = false;
    since = Since::kGone;
  } else {
    Epoch newest;
    std::uint64_t end = 0;
    for (const Found& each : found) {
      newest = std::max(newest, each.epoch);
      end = std::max(end, each.end);
      cell.striped = cell.striped || each.role == wire::Role::kStorage;
    }
    if (newest > cell.epoch) {
      cell.epoch = newest;
      cell.size = end;
      cell.truncating = false;
      since = Since::kCut;
    } else if (end > cell.size) {
      cell.size = end;
      since = Since::kGrew;
    } else {
      return since;
    }
    cell.stored.emplace();
    for (const Found& each : found) cell.note_stored({each.server, each.allocated});
  }
  cell.mtime = cell.ctime = std::max({now, cell.mtime, cell.ctime});
  return since;
}

}  // namespace slice::backup
