#include "dirserver/ops/new_object.h"

#include "bpf/shared/file_handle.h"

namespace slice::dirserver::ops {
namespace {

using TimeHow = nfs3::SetAttributes::TimeHow;

std::uint32_t default_mode(nfs3::FileType type) {
  return type == nfs3::FileType::kSymlink ? 0777 : 0;
}

// Owner, group and mode of a new object, as other servers have them: a set-group-id directory gives its group
// on, and the bit to directories; only the superuser names another owner; the bit of a file goes where its
// maker is not in the group.
void set_owner_and_mode(AttributeCell& cell, const Identity& who, const AttributeCell& directory,
                        const nfs3::SetAttributes& attributes) {
  bool inherits = (directory.mode & kSetGid) != 0;
  cell.uid = who.uid;
  cell.gid = inherits ? directory.gid : who.gid;
  if (who.superuser()) {
    cell.uid = attributes.uid.value_or(cell.uid);
    cell.gid = attributes.gid.value_or(cell.gid);
  } else if (attributes.gid && who.in_group(*attributes.gid)) {
    cell.gid = *attributes.gid;
  }
  cell.mode = attributes.mode.value_or(default_mode(cell.self.type)) & kAllModes;
  if (cell.self.type == nfs3::FileType::kSymlink) cell.mode = 0777;
  if (cell.directory()) {
    if (inherits) cell.mode |= kSetGid;
  } else if ((cell.mode & (kSetGid | kGroupExecute)) == (kSetGid | kGroupExecute) && !who.superuser() &&
             !who.in_group(cell.gid)) {
    cell.mode &= ~kSetGid;
  }
}

void set_times(AttributeCell& cell, const nfs3::SetAttributes& attributes, nfs3::Time now) {
  cell.atime = attributes.set_atime == TimeHow::kClientTime ? attributes.atime : now;
  cell.mtime = attributes.set_mtime == TimeHow::kClientTime ? attributes.mtime : now;
  cell.ctime = now;
}

bool bad_time(const nfs3::SetAttributes& attributes) {
  constexpr std::uint32_t limit = 1'000'000'000;
  return (attributes.set_atime == TimeHow::kClientTime && attributes.atime.nanoseconds >= limit) ||
         (attributes.set_mtime == TimeHow::kClientTime && attributes.mtime.nanoseconds >= limit);
}

// Where the bytes of a new file will lie, as its directory says, else the volume. The hash gives mirrored
// files to the storage servers of the volume's birth alone: where others came later, new ones have block
// maps.
void lay_out(AttributeCell& cell, const FilePolicy& policy, const NameSpace& names) {
  const VolumeConfig& volume = names.config();
  const auto settings = names.settings();
  std::uint32_t shift = policy.stripe_shift != 0 ? policy.stripe_shift : volume.stripe_shift;
  cell.self.stripe_shift = static_cast<std::uint8_t>(shift);
  if (cell.directory()) cell.policy = policy;
  if (cell.regular()) {
    const std::uint32_t copies = policy.copies != 0 ? policy.copies : settings->copies;
    cell.self.flags = slice_handle_flags_of_copies(copies);
    auto placement =
        policy.placement != 0 ? static_cast<slice::Placement>(policy.placement - 1) : settings->placement;
    if (placement == slice::Placement::kFreeSpace || (copies > 1 && names.tables()->some_came_later()))
      cell.self.flags |= SLICE_HANDLE_BLOCK_MAPPED;
  }
}

// Its directory's. The ensemble itself makes trees (wire/trees.h).
TreeId tree_of_new(const NfsRequest& request, const AttributeCell& directory, nfs3::FileType type,
                   const nfs3::SetAttributes& attributes) {
  const bool makes_tree = request.call.internal && type == nfs3::FileType::kDirectory && attributes.size;
  return makes_tree ? TreeId{static_cast<std::uint16_t>(*attributes.size)} : directory.self.tree;
}

}  // namespace

Answer<NamedEntry> find_place(Change& change, const nfs3::DirOpArgs& where) {
  change.expect_name(change.request.handle, where.name);
  auto directory = change.directory(change.request.handle);
  if (!directory) return refuse(directory.error());
  change.request.wcc = change.wcc_before(**directory);
  if (dot_or_dot_dot(where.name)) return refuse(nfs3::Status::kExist);
  return change.look_up(**directory, where.name);
}

Answer<AttributeCell*> make_object(Change& change, const NamedEntry& entry, nfs3::FileType type,
                                   const nfs3::SetAttributes& attributes) {
  const Identity& who = change.request.who;
  AttributeCell& directory = *entry.directory;
  if (entry.target) return refuse(nfs3::Status::kExist);
  if (!may(who, directory, service::kMayWrite | service::kMayExecute)) return refuse(nfs3::Status::kAcces);
  if (bad_time(attributes)) return refuse(nfs3::Status::kInval);
  if (change.low_on_space()) return refuse(nfs3::Status::kNoSpc);
  auto self = change.new_cell(entry.place, type);
  if (!self) return refuse(self.error());

  AttributeCell cell;
  cell.self = {.cell = *self,
               .tree = tree_of_new(change.request, directory, type, attributes),
               .type = type,
               .cell_key = entry.place.hash};
  lay_out(cell, directory.policy, change.names);
  set_owner_and_mode(cell, who, directory, attributes);
  set_times(cell, attributes, change.now);
  if (cell.directory()) {
    cell.nlink = 2;
    cell.parent = directory.self.cell;
  }
  if (cell.regular()) cell.size = attributes.size.value_or(0);
  if (directory.defaults && type != nfs3::FileType::kSymlink) {
    cell.access = nfs3::inherit(*directory.defaults, cell.mode);
    if (cell.directory()) cell.defaults = directory.defaults;
  }
  const auto owners = owners_of(cell).ids();
  if (auto status = change.check_quotas(owners, cell); status != nfs3::Status::kOk) return refuse(status);
  if (auto status = change.link(entry, cell.self); status != nfs3::Status::kOk) return refuse(status);
  return &change.create(std::move(cell));
}

nfs3::Status created(Change& change, const NamedEntry& entry, const AttributeCell& cell) {
  routing::HandleBytes handle = change.names.mint(cell.self);
  nfs3::encode_result(change.out,
                      nfs3::CreatedOk{.object = nfs3::HandleView(handle),
                                      .attributes = change.names.attributes(cell),
                                      .directory = change.wcc_after(change.request.wcc, *entry.directory)});
  return nfs3::Status::kOk;
}

nfs3::Status plan_object(Change& change, const nfs3::DirOpArgs& where, nfs3::FileType type,
                         const nfs3::SetAttributes& attributes,
                         const std::function<nfs3::Status(AttributeCell& cell)>& complete) {
  auto entry = find_place(change, where);
  if (!entry) return entry.error();
  auto cell = make_object(change, *entry, type, attributes);
  if (!cell) return cell.error();
  nfs3::Status status = complete ? complete(**cell) : nfs3::Status::kOk;
  return status == nfs3::Status::kOk ? created(change, *entry, **cell) : status;
}

}  // namespace slice::dirserver::ops
