#include "dirserver/ops/new_object.h"
#include "dirserver/ops/ops.h"
#include "dirserver/ops/resize.h"

namespace slice::dirserver::ops {
namespace {

using nfs3::CreateMode;
using nfs3::Status;

Task<NfsAnswer> make(Change& change, const NamedEntry& entry, const nfs3::CreateArgs& arguments) {
  // An exclusive create carries a verifier where the others carry attributes: the client sets them next.
  bool exclusive = arguments.mode == CreateMode::kExclusive;
  auto cell = make_object(change, entry, nfs3::FileType::kRegular,
                          exclusive ? nfs3::SetAttributes{} : arguments.attributes);
  if (!cell) co_return co_await change.fail(cell.error());
  if ((*cell)->size > kMaxFileSize) co_return co_await change.fail(Status::kFbig);
  if (exclusive) (*cell)->exclusive_verifier = arguments.verifier;
  co_return co_await commit_object(change, entry, **cell);
}

// The name exists: whether this call may have it, without change.
Task<NfsAnswer> take(Change& change, const NamedEntry& entry, const nfs3::CreateArgs& arguments) {
  auto cell = change.target(entry);
  if (!cell) co_return co_await change.fail(cell.error());
  bool same = arguments.mode == CreateMode::kExclusive && (*cell)->exclusive_verifier == arguments.verifier;
  bool unchecked = arguments.mode == CreateMode::kUnchecked && (*cell)->regular();
  if (!same && !unchecked) co_return co_await change.fail(Status::kExist);
  routing::HandleBytes handle = change.volume.mint((*cell)->self);
  nfs3::encode_result(change.out, nfs3::CreatedOk{.object = nfs3::HandleView(handle),
                                                  .attributes = change.volume.attributes(**cell),
                                                  .directory = change.request.wcc});
  co_return co_await change.answer(Status::kOk);
}

// CREATE UNCHECKED with a size of a file that exists is a SETATTR of the size. The file's lock is held.
Task<NfsAnswer> take_and_resize(Change& change, const NamedEntry& entry, std::uint64_t size) {
  Volume& volume = change.volume;
  NfsRequest& request = change.request;
  auto cell = change.target(entry);
  if (!cell) co_return co_await change.fail(cell.error());
  if (auto status = check_resize(request.who, **cell, size); status != Status::kOk) {
    co_return co_await change.fail(status);
  }
  nfs3::WccAttributes before = wcc_of(**cell);
  resize(**cell, request.who, size, change.now);
  change.transaction.change(**cell);
  if (!volume.servers.involved((*cell)->striped)) co_return co_await commit_object(change, entry, **cell);

  auto record = co_await cut(change, **cell, std::nullopt, before);
  if (!record) co_return record.error();
  Change last(volume, request, change.out);
  request.wcc = {};  // time has passed: nothing atomic can be said of the directory
  auto now = volume.truncations.end(last.transaction, *record);
  if (!now) co_return co_await last.fail(refuse(now.error()).value());
  if (*now == nullptr) co_return co_await last.fail(Status::kStale);
  auto directory = last.directory(request.handle);
  if (!directory) co_return co_await last.fail(directory.error());
  NamedEntry after{.directory = *directory};
  co_return co_await commit_object(last, after, **now);
}

bool wants_resize(const NamedEntry& entry, const nfs3::CreateArgs& arguments) {
  return entry.target && arguments.mode == CreateMode::kUnchecked && arguments.attributes.size &&
         entry.target->type == nfs3::FileType::kRegular;
}

}  // namespace

Task<NfsAnswer> create(Volume& volume, NfsRequest& request, const nfs3::CreateArgs& arguments,
                       rpc::XdrWriter& out) {
  std::optional<FileLocks::Held> lock;
  std::optional<FileId> locked;
  for (;;) {
    Change change(volume, request, out);
    auto entry = find_place(change, arguments.where);
    if (!entry) co_return co_await change.fail(entry.error());
    if (!entry->target) co_return co_await make(change, *entry, arguments);
    if (!wants_resize(*entry, arguments)) co_return co_await take(change, *entry, arguments);
    FileId file = entry->target->cell.fileid;
    if (locked == file) co_return co_await take_and_resize(change, *entry, *arguments.attributes.size);
    // Waiting for the lock lets others run: the name is looked up again with it.
    lock.reset();
    lock.emplace(co_await volume.locks.lock(file));
    locked = file;
  }
}

}  // namespace slice::dirserver::ops
