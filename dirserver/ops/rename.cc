#include "dirserver/ops/ops.h"

namespace slice::dirserver::ops {
namespace {

using nfs3::Status;

struct Rename {
  AttributeCell* from_directory = nullptr;
  AttributeCell* to_directory = nullptr;
  NamedEntry from, to;
  AttributeCell* source = nullptr;
  AttributeCell* replaced = nullptr;  // what `to` named before; null where nothing
};

// Whether `directory` is `ancestor`, or below it. Walks up by the parents that directories remember.
Answer<bool> is_within(Change& change, const AttributeCell& directory, const AttributeCell& ancestor) {
  const AttributeCell* at = &directory;
  while (at != &ancestor) {
    if (at->self.cell.fileid == kRootId) return false;
    auto parent = change.transaction.load(at->parent);
    if (!parent) return refuse(parent.error());
    if (*parent == nullptr) {
      return refuse(Error{Errc::kCorrupt, fmt::format("directory {:#x} has a parent without attribute cell",
                                                      at->self.cell.fileid.value)});
    }
    at = *parent;
  }
  return true;
}

Status find(Change& change, const nfs3::RenameArgs& arguments, Rename& rename) {
  if (dot_or_dot_dot(arguments.from.name) || dot_or_dot_dot(arguments.to.name)) return Status::kInval;
  auto from = change.look_up(*rename.from_directory, arguments.from.name);
  if (!from) return from.error();
  auto to = change.look_up(*rename.to_directory, arguments.to.name);
  if (!to) return to.error();
  if (!from->target) return Status::kNoEnt;
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
  return Status::kOk;
}

Status check_permission(const Change& change, const Rename& rename) {
  const Identity& who = change.request.who;
  constexpr unsigned wanted = service::kMayWrite | service::kMayExecute;
  if (!may(who, *rename.from_directory, wanted) || !may(who, *rename.to_directory, wanted)) {
    return Status::kAcces;
  }
  if (sticky_keeps(who, *rename.from_directory, *rename.source)) return Status::kPerm;
  if (rename.replaced != nullptr && sticky_keeps(who, *rename.to_directory, *rename.replaced)) {
    return Status::kPerm;
  }
  // A directory that gets another parent is changed itself: its "..".
  if (rename.source->directory() && rename.from_directory != rename.to_directory &&
      !may(who, *rename.source, service::kMayWrite)) {
    return Status::kAcces;
  }
  return Status::kOk;
}

Status check_shape(Change& change, const Rename& rename) {
  if (rename.source->directory() && rename.from_directory != rename.to_directory) {
    auto within = is_within(change, *rename.to_directory, *rename.source);
    if (!within) return within.error();
    if (*within) return Status::kInval;
  }
  if (rename.replaced == nullptr) return Status::kOk;
  if (rename.source->directory() && !rename.replaced->directory()) return Status::kNotDir;
  if (!rename.source->directory() && rename.replaced->directory()) return Status::kIsDir;
  if (rename.replaced->directory() && rename.replaced->entries > 0) return Status::kNotEmpty;
  return Status::kOk;
}

Status move(Change& change, Rename& rename) {
  Transaction& transaction = change.transaction;
  bool directory = rename.source->directory();
  Target target = rename.source->self;
  transaction.unlink(rename.from.place);
  --rename.from_directory->entries;
  if (directory) --rename.from_directory->nlink;
  if (rename.replaced != nullptr) {
    transaction.retarget(rename.to.place, target);
    if (rename.replaced->directory()) --rename.to_directory->nlink;
    change.drop_link(*rename.replaced);
  } else {
    if (auto linked = transaction.link(rename.to.place, target); !linked) {
      return refuse(linked.error()).value();
    }
    ++rename.to_directory->entries;
  }
  if (directory) {
    ++rename.to_directory->nlink;
    rename.source->parent = rename.to_directory->self.cell;
  }
  rename.source->ctime = later(change.now, rename.source->ctime);
  transaction.change(*rename.source);
  change.touch_directory(*rename.from_directory);
  if (rename.to_directory != rename.from_directory) change.touch_directory(*rename.to_directory);
  return Status::kOk;
}

Status plan(Change& change, const nfs3::RenameArgs& arguments, Rename& rename) {
  if (auto status = find(change, arguments, rename); status != Status::kOk) return status;
  // Onto itself, or onto another name of the same file: both names stay (RFC 1813 section 3.3.14).
  if (rename.source == rename.replaced) return Status::kOk;
  if (auto status = check_permission(change, rename); status != Status::kOk) return status;
  if (auto status = check_shape(change, rename); status != Status::kOk) return status;
  return move(change, rename);
}

}  // namespace

Task<NfsAnswer> rename(Volume& volume, NfsRequest& request, const nfs3::RenameArgs& arguments,
                       rpc::XdrWriter& out) {
  Change change(volume, request, out);
  std::size_t start = out.size();
  Rename rename;
  nfs3::RenameResult result;
  auto from = change.directory(request.handle);
  if (!from) co_return co_await change.fail(from.error());
  result.from = {.before = wcc_of(**from), .after = volume.attributes(**from)};
  request.wcc = result.from;
  auto handle = change.open(arguments.to.directory);
  if (!handle) co_return co_await change.fail(handle.error());
  auto to = change.directory(*handle);
  if (!to) co_return co_await change.fail(to.error());
  result.to = {.before = wcc_of(**to), .after = volume.attributes(**to)};
  rename.from_directory = *from;
  rename.to_directory = *to;
  Status status = plan(change, arguments, rename);
  if (status == Status::kOk) {
    result.from = change.wcc_after(result.from, **from);
    result.to = change.wcc_after(result.to, **to);
  }
  out.rewind(start);
  nfs3::encode_result(out, status, result);
  if (status != Status::kOk) co_return co_await change.answer(status);
  co_return co_await change.commit();
}

}  // namespace slice::dirserver::ops
