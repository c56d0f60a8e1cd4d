#include "dirserver/ops/ops.h"

namespace slice::dirserver::ops {
namespace {

struct Found {
  Target target;
  nfs3::Attributes attributes;
};

// The object of a name; `shown` as in read_object().
Answer<Found> look_up(Volume& volume, const NfsRequest& request, const AttributeCell& directory,
                      std::string_view name, storage::LogPosition& shown) {
  if (auto status = check_name(name); status != nfs3::Status::kOk) return refuse(status);
  if (!may(request.who, directory, service::kMayExecute)) return refuse(nfs3::Status::kAcces);
  if (name == ".") return Found{directory.self, volume.attributes(directory)};
  CellRef ref;
  if (name == "..") {
    ref = directory.parent;
  } else {
    auto entry = volume.cells.find(volume.placement.place(directory.self.cell, name));
    if (!entry) return refuse(entry.error());
    if (*entry == nullptr) return refuse(nfs3::Status::kNoEnt);
    ref = (*entry)->target.cell;
  }
  shown = std::max(shown, volume.cells.pending(ref.fileid));
  auto cell = volume.cells.attributes(ref);
  if (!cell) return refuse(cell.error());
  if (*cell == nullptr) return refuse(nfs3::Status::kStale);
  return Found{(*cell)->self, volume.attributes(**cell)};
}

}  // namespace

Task<NfsAnswer> lookup(Volume& volume, NfsRequest& request, const nfs3::LookupArgs& arguments,
                       rpc::XdrWriter& out) {
  storage::LogPosition shown;
  auto cell = read_object(volume, request.handle, shown);
  if (!cell) return refuse_shown(volume, request, out, shown, cell.error());
  request.attributes = volume.attributes(**cell);
  if (!(*cell)->directory()) return refuse_shown(volume, request, out, shown, nfs3::Status::kNotDir);
  // A copy: looking further may move what the cache holds.
  AttributeCell directory = **cell;
  auto found = look_up(volume, request, directory, arguments.name, shown);
  if (!found) return refuse_shown(volume, request, out, shown, found.error());
  routing::HandleBytes handle = volume.mint(found->target);
  nfs3::encode_result(
      out,
      nfs3::LookupOk{.object = handle, .attributes = found->attributes, .directory = request.attributes});
  return answer_shown(volume, request, shown, nfs3::Status::kOk);
}

}  // namespace slice::dirserver::ops
