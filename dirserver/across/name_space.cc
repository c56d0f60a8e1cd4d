#include "dirserver/across/name_space.h"

#include <algorithm>

namespace slice::dirserver {

using NfsStatus = nfs3::Status;

Answer<const AttributeCell*> NameSpace::read_object(const routing::FileHandle& handle,
                                                    storage::LogPosition& shown) {
  shown = std::max(shown, cells.pending(handle.fileid));
  auto cell = cells.attributes(cell_of(handle));
  if (!cell) return refuse(cell.error());
  if (*cell == nullptr || (*cell)->self.type != handle.type) return refuse(NfsStatus::kStale);
  return *cell;
}

Task<Answer<std::optional<AttributeCell>>> NameSpace::read_cell(CellRef ref, storage::LogPosition& shown) {
  if (cells.owns(ref.site)) co_await held.until_readable({ref.fileid, {}});
  if (!cells.owns(ref.site)) {
    auto far = co_await peers_.read(ref, false);
    if (!far) co_return refuse(far.error());
    co_return std::move(*far);
  }
  shown = std::max(shown, cells.pending(ref.fileid));
  auto cell = cells.attributes(ref);
  if (!cell) co_return refuse(cell.error());
  if (*cell == nullptr) co_return std::nullopt;
  co_return std::optional<AttributeCell>(**cell);
}

Task<Answer<ReadDirectory>> NameSpace::read_directory(const routing::FileHandle& handle,
                                                      storage::LogPosition& shown) {
  CellRef ref = cell_of(handle);
  std::optional<ReadDirectory> found;
  if (cells.owns(ref.site)) {
    co_await held.until_readable({ref.fileid, {}});
    auto cell = read_object(handle, shown);
    if (!cell) co_return refuse(cell.error());
    found = ReadDirectory{**cell, false};
  }
  while (!found) {
    shown = std::max(shown, cells.pending(ref.fileid));
    if (const AttributeCell* leased = parts_.leased(ref)) {
      found = ReadDirectory{*leased, true};
    } else if (auto taken = co_await parts_.take_lease(ref); !taken) {
      co_return refuse(taken.error());
    }
  }
  if (found->cell.self.type != handle.type) co_return refuse(NfsStatus::kStale);
  co_return std::move(*found);
}

}  // namespace slice::dirserver
