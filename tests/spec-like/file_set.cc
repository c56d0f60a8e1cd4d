#include "tests/spec-like/file_set.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>

namespace slice::load {
namespace {

constexpr int kDraws = 16;

void put(std::vector<File*>& list, std::size_t File::* place, File& file) {
  file.*place = list.size();
  list.push_back(&file);
}
void take(std::vector<File*>& list, std::size_t File::* place, File& file) {
  if (file.*place == File::kNowhere) return;
  list.back()->*place = file.*place;
  list[file.*place] = list.back();
  list.pop_back();
  file.*place = File::kNowhere;
}

}  // namespace

Handle Handle::of(ByteView view) {
  Handle handle;
  handle.size = static_cast<std::uint8_t>(std::min(view.size(), handle.bytes.size()));
  std::copy_n(view.begin(), handle.size, handle.bytes.begin());
  return handle;
}

void File::renew(std::uint64_t offset, std::uint64_t count) {
  const std::uint64_t first = offset / kBlock, end = (offset + count + kBlock - 1) / kBlock;
  if (versions.size() < end) versions.resize(end);
  for (std::uint64_t block = first; block < end; ++block) ++versions[block];
}

void fill(const File& file, std::uint64_t offset, ByteSpan out) {
  for (std::size_t done = 0; done < out.size();) {
    const std::uint64_t at = offset + done;
    const std::size_t n = std::min<std::size_t>(out.size() - done, kBlock - at % kBlock);
    fill(file.content(at / kBlock), at, out.subspan(done, n));
    done += n;
  }
}

std::optional<std::uint64_t> first_difference(const File& file, std::uint64_t offset, ByteView got) {
  for (std::size_t done = 0; done < got.size();) {
    const std::uint64_t at = offset + done;
    const std::size_t n = std::min<std::size_t>(got.size() - done, kBlock - at % kBlock);
    if (auto wrong = first_difference(file.content(at / kBlock), at, got.subspan(done, n)))
      return at + *wrong;
    done += n;
  }
  return std::nullopt;
}

File& FileSet::new_file(std::uint32_t directory, std::uint64_t nominal, bool temporary) {
  if (free_.empty()) {
    files_.emplace_back();
    free_.push_back(&files_.back());
  }
  File& file = *free_.back();
  free_.pop_back();
  file = File{};
  file.number = new_number();
  file.key = random_.next();
  file.directory = directory;
  file.nominal = nominal;
  file.temporary = temporary;
  file.writer = true;  // its maker's
  return file;
}

void FileSet::made(File& file) {
  ++present_;
  if (file.temporary) {
    put(active_, &File::active_at, file);
    put(temporary_, &File::temporary_at, file);
    return;
  }
  // Every 1/working_set-th file, so that the set keeps its share as it grows.
  const auto before = static_cast<std::uint64_t>(static_cast<double>(made_) * working_set_);
  const auto after = static_cast<std::uint64_t>(static_cast<double>(++made_) * working_set_);
  if (after > before || made_ == 1) put(active_, &File::active_at, file);
}

void FileSet::forget(File& file) {
  if (file.handle.size > 0) --present_;
  if (file.handle.size > 0 && !file.temporary) --made_;
  take(active_, &File::active_at, file);
  take(temporary_, &File::temporary_at, file);
  // An entry of dirty_ may stay: pick_dirty() drops what is not dirty.
  file = File{};
  free_.push_back(&file);
}

bool FileSet::lock(File& file, bool exclusive) {
  // Who reads a dirty file may find that bytes are lost and write them again, which others must not see half
  // done.
  exclusive = exclusive || file.dirty;
  if (file.writer || (exclusive && file.readers > 0)) return false;
  if (exclusive) {
    file.writer = true;
  } else {
    ++file.readers;
  }
  return true;
}

void FileSet::release(File& file) {
  assert(file.writer || file.readers > 0);
  if (file.writer) {
    file.writer = false;
  } else {
    --file.readers;
  }
}

File* FileSet::pick(bool exclusive) {
  for (int i = 0; i < kDraws && !active_.empty(); ++i) {
    File& file = *active_[random_.below(active_.size())];
    if (lock(file, exclusive)) return &file;
  }
  return nullptr;
}

File* FileSet::pick_temporary() {
  for (int i = 0; i < kDraws && !temporary_.empty(); ++i) {
    File& file = *temporary_[random_.below(temporary_.size())];
    if (lock(file, true)) return &file;
  }
  return nullptr;
}

File* FileSet::pick_dirty() {
  for (std::size_t tries = std::min<std::size_t>(dirty_.size(), kDraws); tries > 0; --tries) {
    const std::size_t at = random_.below(dirty_.size());
    File* file = dirty_[at];
    if (file->dirty && !lock(*file, true)) continue;
    dirty_[at] = dirty_.back();
    dirty_.pop_back();
    if (file->dirty) return file;
  }
  return nullptr;
}

std::string FileSet::missing_name() {
  return fmt::format("absent{}", random_.below(1'000'000));
}

void FileSet::begin_change(Directory& directory, const std::string& name) {
  NameState& state = directory.names[name];
  state.busy = true;
  state.changed = tick();
}

void FileSet::end_change(Directory& directory, const std::string& name, std::optional<FileId> now,
                         nfs3::FileType type) {
  NameState& state = directory.names[name];
  state.busy = false;
  state.changed = tick();
  state.present = now.has_value();
  state.type = type;
  if (now) state.fileid = *now;
  // A listing under way may still show it.
  if (!state.present && directory.listings == 0) directory.names.erase(name);
}

Listing::Listing(FileSet& files, Directory& directory) : directory_(directory), begun_(files.tick()) {
  ++directory_.listings;
}

Listing::~Listing() {
  if (--directory_.listings > 0) return;
  std::erase_if(directory_.names, [](const auto& each) {
    return !each.second.present && !each.second.busy && !each.second.uncertain;
  });
}

std::string Listing::take(std::string_view name, FileId fileid) {
  auto [place, fresh] = seen_.emplace(name, fileid);
  if (!fresh) return fmt::format("lists {} twice", name);
  if (name == ".")
    return fileid == directory_.fileid ? "" : fmt::format("lists . with fileid {}", fileid.value);
  if (name == "..") return "";
  auto known = directory_.names.find(std::string(name));
  if (known == directory_.names.end()) return fmt::format("lists {}, which is not there", name);
  const NameState& state = known->second;
  if (state.busy || state.uncertain || state.changed >= begun_) return "";
  if (!state.present) return fmt::format("lists {}, which was removed before the listing began", name);
  if (state.fileid != fileid) {
    return fmt::format("lists {} with fileid {}, which is {}", name, fileid.value, state.fileid.value);
  }
  return "";
}

std::string Listing::end() {
  for (const auto& [name, state] : directory_.names) {
    if (state.busy || state.uncertain || state.changed >= begun_ || !state.present) continue;
    if (!seen_.contains(name)) return fmt::format("does not list {}, which was there all the time", name);
  }
  return "";
}

}  // namespace slice::load
