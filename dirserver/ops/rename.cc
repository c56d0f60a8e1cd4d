#include "dirserver/ops/ops.h"

namespace slice::dirserver::ops {

using NfsStatus = nfs3::Status;

namespace {

struct Rename {
  AttributeCell* from_directory = nullptr;
  AttributeCell* to_directory = nullptr;
  NamedEntry from, to;
  AttributeCell* source = nullptr;
  AttributeCell* replaced = nullptr;  // what `to` named before; null where nothing
};

bool same(const AttributeCell& a, const AttributeCell& b) {
  return a.self.cell == b.self.cell;
}

// Whether `directory` is `ancestor`, or below it. Walks up by the parents that directories remember, which
// stay as they are while the lock of directory renames is held.
Answer<bool> is_within(Change& change, const AttributeCell& directory, const AttributeCell& ancestor) {
  CellRef at = directory.self.cell;
  while (at != ancestor.self.cell) {
    if (at.fileid == kRootId) return false;
    auto cell = change.glance(at);
    if (!cell) return refuse(cell.error());
    if (*cell == nullptr) {
      return refuse(Error{Errc::kCorrupt, fmt::format("directory {:#x} is a parent and has no attribute cell",
                                                      at.fileid.value)});
    }
    at = (*cell)->parent;
  }
  return true;
}

NfsStatus find(Change& change, const nfs3::RenameArgs& arguments, Rename& rename) {
  if (dot_or_dot_dot(arguments.from.name) || dot_or_dot_dot(arguments.to.name)) return NfsStatus::kInval;
  auto from = change.look_up(*rename.from_directory, arguments.from.name);
  if (!from) return from.error();
  auto to = change.look_up(*rename.to_directory, arguments.to.name);
  if (!to) return to.error();
  if (!from->target) return NfsStatus::kNoEnt;
  rename.from = *from;
  rename.to = *to;
  auto source = change.target(*from);
  if (!source) return source.error();
  rename.source = *source;
  if (to->target) {
    auto replaced = change.target(*to);
    if (!replaced) return replaced.error();
    rename.replaced = *replaced;
  }
  return NfsStatus::kOk;
}

NfsStatus check_permission(const Change& change, const Rename& rename) {
  const Identity& who = change.request.who;
  constexpr unsigned wanted = service::kMayWrite | service::kMayExecute;
  if (!may(who, *rename.from_directory, wanted) || !may(who, *rename.to_directory, wanted)) {
    return NfsStatus::kAcces;
  }
  if (sticky_keeps(who, *rename.from_directory, *rename.source)) return NfsStatus::kPerm;
  if (rename.replaced != nullptr && sticky_keeps(who, *rename.to_directory, *rename.replaced)) {
    return NfsStatus::kPerm;
  }
  // A directory that gets another parent is changed itself: its "..".
  if (rename.source->directory() && rename.from_directory != rename.to_directory &&
      !may(who, *rename.source, service::kMayWrite)) {
    return NfsStatus::kAcces;
  }
  return NfsStatus::kOk;
}

NfsStatus check_shape(Change& change, const Rename& rename) {
  if (rename.source->directory() && rename.from_directory != rename.to_directory) {
    if (auto held = change.hold_rename_lock(); held != NfsStatus::kOk) return held;
    auto within = is_within(change, *rename.to_directory, *rename.source);
    if (!within) return within.error();
    if (*within) return NfsStatus::kInval;
  }
  if (rename.replaced == nullptr) return NfsStatus::kOk;
  if (rename.source->directory() && !rename.replaced->directory()) return NfsStatus::kNotDir;
  if (!rename.source->directory() && rename.replaced->directory()) return NfsStatus::kIsDir;
  if (!rename.replaced->directory()) return NfsStatus::kOk;
  auto empty = change.empty(*rename.replaced);
  if (!empty) return empty.error();
  return *empty ? NfsStatus::kOk : NfsStatus::kNotEmpty;
}

NfsStatus move(Change& change, Rename& rename) {
  AttributeCell& source = *rename.source;
  if (auto status = change.unlink(rename.from); status != NfsStatus::kOk) return status;
  NfsStatus named = rename.replaced != nullptr ? change.retarget(rename.to, source.self)
                                               : change.link(rename.to, source.self);
  if (named != NfsStatus::kOk) return named;
  if (rename.replaced != nullptr) {
    if (auto status = change.drop_link(*rename.replaced); status != NfsStatus::kOk) return status;
  }
  if (source.directory()) source.parent = rename.to_directory->self.cell;
  source.ctime = later(change.now, source.ctime);
  return change.rewrite(source);
}

// What is a tree's own directory stays where it is, as a directory that something is mounted on, and nothing
// takes its place.
NfsStatus check_trees(const Rename& rename) {
  const TreeId tree = rename.from_directory->self.tree;
  if (rename.source->self.tree != tree) return NfsStatus::kAcces;
  return rename.replaced != nullptr && rename.replaced->self.tree != tree ? NfsStatus::kAcces
                                                                          : NfsStatus::kOk;
}

NfsStatus decide(Change& change, const nfs3::RenameArgs& arguments, Rename& rename) {
  if (auto status = find(change, arguments, rename); status != NfsStatus::kOk) return status;
  // Onto itself, or onto another name of the same file: both names stay (RFC 1813 section 3.3.14).
  if (rename.replaced != nullptr && same(*rename.source, *rename.replaced)) return NfsStatus::kOk;
  if (auto status = check_permission(change, rename); status != NfsStatus::kOk) return status;
  if (auto status = check_trees(rename); status != NfsStatus::kOk) return status;
  if (auto status = check_shape(change, rename); status != NfsStatus::kOk) return status;
  return move(change, rename);
}

NfsStatus plan(Change& change, const nfs3::RenameArgs& arguments) {
  Rename rename;
  nfs3::RenameResult result;
  auto handle = change.open(arguments.to.directory);
  change.expect_name(change.request.handle, arguments.from.name);
  if (handle) change.expect_name(*handle, arguments.to.name);
  auto from = change.directory(change.request.handle);
  if (!from) return from.error();
  result.from = change.request.wcc = change.wcc_before(**from);
  if (!handle) return handle.error();
  // Nothing goes from a tree to another, whose exports may not let the caller in: nothing is told of it.
  if (handle->tree != change.request.handle.tree) {
    nfs3::encode_result(change.out, NfsStatus::kXdev, result);
    return NfsStatus::kXdev;
  }
  auto to = change.directory(*handle);
  if (!to) return to.error();
  result.to = change.wcc_before(**to);
  rename.from_directory = *from;
  rename.to_directory = *to;
  NfsStatus status = decide(change, arguments, rename);
  if (status == NfsStatus::kOk) {
    result.from = change.wcc_after(result.from, **from);
    result.to = change.wcc_after(result.to, **to);
  }
  nfs3::encode_result(change.out, status, result);
  return status;
}

}  // namespace

Task<NfsAnswer> rename(Changes& changes, NfsRequest& request, const nfs3::RenameArgs& arguments,
                       rpc::XdrWriter& out) {
  return changes.run(request, out, [&arguments](Change& change) { return plan(change, arguments); });
}

}  // namespace slice::dirserver::ops
