#include "smallfile/file_table.h"

#include <cassert>

namespace slice::smallfile {
namespace {

constexpr std::size_t kMaxRemoved = 65536;

}  // namespace

Pin::Pin(FileTable& table, File& file) : table_(&table), file_(&file) {
  ++file.pins;
  file.used = true;
}
Pin::~Pin() {
  if (file_ != nullptr) table_->unpin(*file_);
}

FileTable::FileTable(Loop& loop, const storage::KvStore& store, Metrics& metrics, Options options)
    : loop_(loop),
      store_(store),
      options_(std::move(options)),
      hits_(metrics.counter("smallfile_record_hits_total", "small files found in memory")),
      misses_(metrics.counter("smallfile_record_misses_total", "small files whose map record was read")),
      evictions_(metrics.counter("smallfile_evictions_total", "small files dropped from memory for others")),
      used_figure_(metrics.gauge("smallfile_cache_bytes", "memory for data and map records")),
      dirty_figure_(metrics.gauge("smallfile_dirty_bytes",
                                  "memory for data and map records that are not yet in zones")),
      files_figure_(metrics.gauge("smallfile_cached_files", "map records of small files in memory")) {}

Result<Pin> FileTable::find(FileId id) {
  auto found = files_.find(id);
  if (found != files_.end()) {
    if (found->second->removed) return fail(Errc::kStale, "file {:#x} was removed", id.value);
    hits_.add();
    return Pin(*this, *found->second);
  }
  if (removed_.contains(id)) return fail(Errc::kStale, "file {:#x} was removed", id.value);
  misses_.add();
  auto file = std::make_unique<File>(loop_, id, options_.site_of(id));
  auto saved = store_.get(key_of(file->site, KeyKind::kMap, id.value));
  if (!saved) return fail(saved.error(), fmt::format("map record of file {:#x}", id.value));
  if (*saved) {
    auto record = decode_map_record(**saved, options_.threshold);
    if (!record) return fail(record.error(), fmt::format("file {:#x}", id.value));
    file->restore(*record);
  }
  File& added = *file;
  files_.emplace(id, std::move(file));
  Pin pin(*this, added);
  charge(added);
  return pin;
}

void FileTable::touch(File& file) {
  assert(file.pins > 0);
  if (!file.dirty) {
    file.dirty = true;
    waiting_.push_back(&file);
  }
  charge(file);
}

void FileTable::charge(File& file) {
  std::size_t footprint = file.footprint();
  std::size_t dirty = file.dirty || file.flushing ? footprint : 0;
  used_ += footprint - file.charged;
  dirty_ += dirty - file.dirty_charged;
  file.charged = footprint;
  file.dirty_charged = dirty;
  make_room();
}

Pin FileTable::take_waiting() {
  File& file = *waiting_.front();
  waiting_.pop_front();
  Pin pin(*this, file);
  file.dirty = false;
  file.flushing = true;
  flushing_.insert(&file);
  return pin;
}

void FileTable::settle(File& file, bool saved) {
  file.flushing = false;
  flushing_.erase(&file);
  if (!saved && !file.dirty) {
    file.dirty = true;
    waiting_.push_back(&file);
  }
  if (saved && file.removed) remember_removed(file.id);
  charge(file);
}

bool FileTable::forget(const std::vector<SiteId>& sites) {
  auto theirs = [&](const File& file) {
    return std::find(sites.begin(), sites.end(), file.site) != sites.end();
  };
  std::vector<File*> files;
  for (const auto& [id, file] : files_) {
    if (!theirs(*file)) continue;
    if (file->pins > 0) return false;
    files.push_back(file.get());
  }
  std::erase_if(waiting_, [&](const File* file) { return theirs(*file); });
  for (File* file : files) {
    assert(!file->flushing);
    if (file->removed) remember_removed(file->id);
    drop(*file);
  }
  make_room();
  return true;
}

void FileTable::remember_removed(FileId id) {
  if (!removed_.insert(id).second) return;
  removed_order_.push_back(id);
  if (removed_order_.size() <= kMaxRemoved) return;
  removed_.erase(removed_order_.front());
  removed_order_.pop_front();
}

void FileTable::unpin(File& file) {
  if (--file.pins > 0 || file.dirty || file.flushing) return;
  if (file.removed) {
    drop(file);
  } else {
    make_idle(file);
    make_room();
  }
}

void FileTable::make_idle(File& file) {
  if (file.idle) return;
  file.idle_at = idle_.insert(idle_.end(), &file);
  file.idle = true;
}

void FileTable::leave_idle(File& file) {
  if (!file.idle) return;
  idle_.erase(file.idle_at);
  file.idle = false;
}

void FileTable::drop(File& file) {
  leave_idle(file);
  used_ -= file.charged;
  dirty_ -= file.dirty_charged;
  files_.erase(file.id);
}

void FileTable::make_room() {
  while (used_ > options_.limit && !idle_.empty()) {
    File& oldest = *idle_.front();
    if (oldest.pins > 0 || oldest.dirty || oldest.flushing) {
      leave_idle(oldest);
    } else if (std::exchange(oldest.used, false)) {
      idle_.splice(idle_.end(), idle_, oldest.idle_at);
    } else {
      evictions_.add();
      drop(oldest);
    }
  }
  used_figure_.set(used_);
  dirty_figure_.set(dirty_);
  files_figure_.set(files_.size());
}

}  // namespace slice::smallfile
