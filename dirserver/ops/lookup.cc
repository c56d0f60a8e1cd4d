#include "dirserver/ops/ops.h"

namespace slice::dirserver::ops {

using NfsStatus = nfs3::Status;

namespace {

// Between reading a name and the cell it points to, others run: the name may have gone meanwhile, and is
// looked up again, but not for ever.
constexpr unsigned kTries = 4;

// What the name points to. The directory may be searched, and the name is well formed.
Task<Answer<CellRef>> find(NameSpace& names, const AttributeCell& directory, std::string_view name,
                           storage::LogPosition& shown) {
  if (name == ".") co_return directory.self.cell;
  if (name == "..") co_return directory.parent;
  NamePlace place = names.placement.place(directory.self.cell, name);
  co_await names.held.until_readable({place.directory.fileid, place.position});
  shown = std::max(shown, names.cells.pending(place.directory.fileid));
  auto entry = names.cells.find(place);
  if (!entry) co_return refuse(entry.error());
  if (*entry == nullptr) co_return refuse(NfsStatus::kNoEnt);
  co_return (*entry)->target.cell;
}

Task<Answer<AttributeCell>> look_up(NameSpace& names, const NfsRequest& request,
                                    const AttributeCell& directory, std::string_view name,
                                    storage::LogPosition& shown) {
  if (auto status = check_name(name); status != NfsStatus::kOk) co_return refuse(status);
  if (!may(request.who, directory, service::kMayExecute)) co_return refuse(NfsStatus::kAcces);
  for (unsigned tries = 0; tries < kTries; ++tries) {
    auto ref = co_await find(names, directory, name, shown);
    if (!ref) co_return refuse(ref.error());
    bool at_once = names.cells.owns(ref->site) && !names.held.stops_reading({ref->fileid, {}});
    auto cell = co_await names.read_cell(*ref, shown);
    if (!cell) co_return refuse(cell.error());
    if (*cell && at_once) co_return std::move(**cell);
    // Was it still under this name when its attributes were read? ".." goes with the directory itself.
    auto now = co_await names.read_directory(request.handle, shown);
    if (!now) co_return refuse(now.error());
    auto again = co_await find(names, now->cell, name, shown);
    if (*cell && again && *again == *ref) co_return std::move(**cell);
  }
  co_return refuse(NfsStatus::kJukebox);
}

}  // namespace

Task<NfsAnswer> lookup(NameSpace& names, NfsRequest& request, const nfs3::LookupArgs& arguments,
                       rpc::XdrWriter& out) {
  storage::LogPosition shown;
  auto directory = co_await names.read_directory(request.handle, shown);
  if (!directory) co_return co_await refuse_shown(names, request, out, shown, directory.error());
  if (!directory->leased) request.attributes = names.attributes(directory->cell);
  if (!directory->cell.directory())
    co_return co_await refuse_shown(names, request, out, shown, NfsStatus::kNotDir);
  auto found = co_await look_up(names, request, directory->cell, arguments.name, shown);
  // For who may not come in there nothing is above a tree, as nothing is above the root.
  if (found && arguments.name == ".." && !may_go_up(names, request.call, directory->cell, *found))
    found = co_await look_up(names, request, directory->cell, ".", shown);
  if (!found) co_return co_await refuse_shown(names, request, out, shown, found.error());
  routing::HandleBytes handle = names.mint(found->self);
  nfs3::encode_result(
      out, nfs3::LookupOk{
               .object = handle, .attributes = names.attributes(*found), .directory = request.attributes});
  co_return co_await answer_shown(names, request, shown, NfsStatus::kOk);
}

}  // namespace slice::dirserver::ops
