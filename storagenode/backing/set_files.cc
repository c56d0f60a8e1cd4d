#include "storagenode/backing/set_files.h"

#include <algorithm>
#include <utility>

#include "common/crc32c.h"
#include "common/task.h"

namespace slice::storagenode {
namespace {

using wire::BackingOp;
using Mode = storage::Disk::Mode;

constexpr char kSlash = '+';  // which no path has

// Whether these bytes have their place on disk.
bool has_place(const storage::File& file, std::uint64_t offset, std::uint64_t length) {
  auto ranges = file.data_ranges(offset, 1);
  return ranges && !ranges->empty() && ranges->front().offset <= offset &&
         ranges->front().offset + ranges->front().length >= offset + length;
}

}  // namespace

struct SetFiles::Open {
  std::unique_ptr<storage::File> file;
  Uses::iterator use = {};
  std::uint64_t changed = 0, synced = 0;  // counts of changes
  bool dirty() const { return changed != synced; }
};

SetFiles::SetFiles(Loop& loop, storage::Disk& disk, const std::string& folder)
    : loop_(loop), disk_(disk), folder_(folder + "/files") {}
SetFiles::~SetFiles() = default;

std::string SetFiles::file_of(std::string_view path) const {
  std::string name(path);
  std::replace(name.begin(), name.end(), '/', kSlash);
  return folder_ + "/" + name;
}

Status SetFiles::noted(Status synced) {
  if (!synced) failed_ = true;
  return synced;
}

Task<Status> SetFiles::sync_file(std::shared_ptr<Open> file) {
  if (!file->dirty()) co_return Status{};
  const std::uint64_t until = file->changed;
  SLICE_CO_RETURN_IF_ERROR(noted(co_await file->file->sync()));
  file->synced = std::max(file->synced, until);
  co_return Status{};
}

Task<Status> SetFiles::sync_names() {
  if (names_changed_ == names_synced_) co_return Status{};
  const std::uint64_t until = names_changed_;
  SLICE_CO_RETURN_IF_ERROR(noted(co_await disk_.sync_folder(folder_)));
  names_synced_ = std::max(names_synced_, until);
  co_return Status{};
}

Task<Status> SetFiles::sync(Syncs syncs) {
  std::vector<Task<Status>> tasks;
  for (std::shared_ptr<Open>& each : syncs.files) tasks.push_back(sync_file(std::move(each)));
  if (syncs.names) tasks.push_back(sync_names());
  for (Status& each : co_await all(std::move(tasks))) {
    if (!each) co_return fail(std::move(each).error());
  }
  co_return Status{};
}

Task<Status> SetFiles::sync_all() {
  Syncs syncs{.names = true};
  for (const auto& [path, file] : open_) {
    if (file->dirty()) syncs.files.push_back(file);
  }
  return sync(std::move(syncs));
}

Task<Status> SetFiles::sync_all_of_any_run() {
  SLICE_CO_RETURN_IF_ERROR(co_await sync_all());
  auto all_paths = co_await paths();
  if (!all_paths) co_return fail(std::move(all_paths).error());
  if (all_paths->empty()) co_return Status{};
  for (const std::string& path : *all_paths) {
    auto file = co_await open_to_read(path);
    if (!file) co_return fail(std::move(file).error());
    SLICE_CO_RETURN_IF_ERROR(noted(co_await (*file)->file->sync()));
  }
  ++names_changed_;
  co_return co_await sync_names();
}

void SetFiles::collect(const wire::BackingChange& change, Syncs& syncs) const {
  if (change.op == BackingOp::kSyncFolder) {
    syncs.names = true;
    return;
  }
  // What is not open has nothing that is not durable.
  auto found = open_.find(change.path);
  if (found != open_.end()) syncs.files.push_back(found->second);
}

void SetFiles::forget(const std::string& path) {
  auto found = open_.find(path);
  if (found == open_.end()) return;
  uses_.erase(found->second->use);
  open_.erase(found);
}

// A file that somebody syncs or reads is closed when that ends.
Task<Status> SetFiles::make_place() {
  while (open_.size() >= most_open_) {
    const std::string path = uses_.back();
    SLICE_CO_RETURN_IF_ERROR(co_await sync_file(open_.at(path)));
    forget(path);
  }
  co_return Status{};
}

Task<Result<std::shared_ptr<SetFiles::Open>>> SetFiles::open(std::string path, bool creates, bool room) {
  if (auto found = open_.find(path); found != open_.end()) {
    uses_.splice(uses_.begin(), uses_, found->second->use);
    co_return found->second;
  }
  if (Status made = co_await make_place(); !made) co_return fail(std::move(made).error());
  auto opened = co_await disk_.open(file_of(path), Mode::kMustExist);
  const bool is_new = !opened && opened.error().code == Errc::kNotFound;
  if (is_new && !creates) co_return std::shared_ptr<Open>();
  if (is_new && !room) co_return fail(Errc::kNoSpace, "{}: less than the reserve is free", file_of(path));
  if (is_new) opened = co_await disk_.open(file_of(path), Mode::kCreate);
  if (!opened) co_return fail(std::move(opened).error());
  auto file = std::make_shared<Open>(Open{.file = std::move(*opened)});
  if (is_new) {
    ++file->changed;
    ++names_changed_;
  }
  uses_.push_front(path);
  file->use = uses_.begin();
  open_.emplace(std::move(path), file);
  co_return file;
}

Task<Result<std::shared_ptr<SetFiles::Open>>> SetFiles::open_to_read(std::string path) {
  if (auto found = open_.find(path); found != open_.end()) co_return found->second;
  auto opened = co_await disk_.open(file_of(path), Mode::kMustExist);
  if (!opened) co_return fail(std::move(opened).error());
  co_return std::make_shared<Open>(Open{.file = std::move(*opened)});
}

Task<Status> SetFiles::carry_out(const wire::BackingChange& change, bool room) {
  if (change.op == BackingOp::kRemove) co_return co_await remove(change.path);
  if (change.op == BackingOp::kRename) {
    co_return co_await rename(change.path, std::string(as_text(change.bytes)));
  }
  const bool creates = change.op != BackingOp::kPunch;
  auto file = co_await open(change.path, creates, room);
  if (!file) co_return fail(std::move(file).error());
  if (*file == nullptr || change.op == BackingOp::kCreate) co_return Status{};
  ++(*file)->changed;
  switch (change.op) {
    case BackingOp::kWrite:
      co_return co_await write(*file, change.offset, change.bytes, room);
    case BackingOp::kTruncate:
      co_return co_await (*file)->file->truncate(change.length);
    case BackingOp::kPunch:
      co_return co_await (*file)->file->punch(change.offset, change.length);
    default:
      co_return fail(Errc::kInvalid, "operation {} is no change", static_cast<std::uint32_t>(change.op));
  }
}

Task<Status> SetFiles::write(std::shared_ptr<Open> file, std::uint64_t offset, ByteView bytes, bool room) {
  if (bytes.empty()) co_return Status{};
  if (!room && !has_place(*file->file, offset, bytes.size())) {
    co_return fail(Errc::kNoSpace, "{}: less than the reserve is free", folder_);
  }
  co_return co_await file->file->write(offset, bytes);
}

Task<Status> SetFiles::remove(std::string path) {
  forget(path);
  ++names_changed_;
  Status removed = co_await disk_.remove(file_of(path));
  if (!removed && removed.error().code == Errc::kNotFound) co_return Status{};
  co_return removed;
}

// Its bytes are made durable under the name that it was opened by: the system would else sync the name that
// it has no more.
Task<Status> SetFiles::rename(std::string from, std::string to) {
  if (from == to) co_return Status{};
  if (auto found = open_.find(from); found != open_.end()) {
    SLICE_CO_RETURN_IF_ERROR(co_await sync_file(found->second));
  }
  ++names_changed_;
  Status renamed = co_await disk_.rename(file_of(from), file_of(to));
  if (!renamed && renamed.error().code == Errc::kNotFound) co_return Status{};
  forget(from);
  forget(to);
  co_return renamed;
}

Task<Status> SetFiles::remove_all() {
  auto all_paths = co_await paths();
  if (!all_paths) co_return fail(std::move(all_paths).error());
  for (const std::string& path : *all_paths) {
    SLICE_CO_RETURN_IF_ERROR(co_await remove(path));
  }
  co_return co_await sync_names();
}

Task<Result<std::vector<std::string>>> SetFiles::paths() {
  auto names = co_await disk_.list(folder_);
  if (!names) co_return fail(std::move(names).error());
  std::vector<std::string> found;
  for (std::string& name : *names) {
    std::replace(name.begin(), name.end(), kSlash, '/');
    if (wire::is_backing_path(name)) found.push_back(std::move(name));
  }
  std::sort(found.begin(), found.end());
  co_return found;
}

Task<Result<std::size_t>> SetFiles::read(std::string path, std::uint64_t offset, ByteSpan into) {
  auto file = co_await open_to_read(std::move(path));
  if (!file) co_return fail(std::move(file).error());
  co_return co_await (*file)->file->read(offset, into);
}

Task<Result<std::vector<wire::BackingFile>>> SetFiles::list(std::string behind, bool& end) {
  auto all_paths = co_await paths();
  if (!all_paths) co_return fail(std::move(all_paths).error());
  std::vector<wire::BackingFile> files;
  auto next = std::upper_bound(all_paths->begin(), all_paths->end(), behind);
  for (; next != all_paths->end() && files.size() < wire::kMaxBackingListed; ++next) {
    auto file = co_await open_to_read(*next);
    if (!file && file.error().code == Errc::kNotFound) continue;  // removed meanwhile
    if (!file) co_return fail(std::move(file).error());
    auto allocated = (*file)->file->allocated();
    if (!allocated) co_return fail(std::move(allocated).error());
    files.push_back({.path = *next, .size = (*file)->file->size(), .allocated = *allocated});
  }
  end = next == all_paths->end();
  co_return files;
}

Task<Result<std::vector<std::uint32_t>>> SetFiles::digest(std::string path, std::uint64_t first,
                                                          std::uint32_t count, std::uint64_t& size) {
  auto file = co_await open_to_read(std::move(path));
  if (!file) co_return fail(std::move(file).error());
  size = (*file)->file->size();
  std::vector<std::uint32_t> digests;
  Buffer piece(wire::kBackingPiece);
  for (std::uint64_t at = first * wire::kBackingPiece; at < size && digests.size() < count;
       at += piece.size()) {
    auto got = co_await (*file)->file->read(at, piece.span());
    if (!got) co_return fail(std::move(got).error());
    if (*got == 0) break;  // cut off meanwhile
    digests.push_back(crc32c(piece.view().first(*got)));
    co_await loop_.sleep(Duration(0));  // requests have their turn
  }
  co_return digests;
}

}  // namespace slice::storagenode
