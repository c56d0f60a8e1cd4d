// What of a Store moves with its site to another server.
#include <algorithm>
#include <cassert>

#include "smallfile/store.h"

namespace slice::smallfile {

Task<Result<Store::Image>> Store::image(FileId id) {
  auto pin = table_.find(id);
  if (!pin) co_return fail(std::move(pin).error());
  File& file = **pin;
  SLICE_CO_RETURN_IF_ERROR(co_await load_range(file, 0, options_.threshold, false));
  if (file.removed) co_return fail(Errc::kStale, "file {:#x} was removed", id.value);
  Image image{.seen = {file.end, file.epoch, file.mtime}, .runs = {}};
  bool joins = false;  // the next block goes on where the last run ends
  for (std::size_t index = 0; index < file.blocks.size(); ++index) {
    const Block& block = file.blocks[index];
    if (block.valid > 0) {
      if (!joins) image.runs.push_back({index * kBlockSize, {}});
      image.runs.back().data.append({block.data.get(), block.valid});
    }
    joins = block.valid == kBlockSize && image.runs.back().data.size() + kBlockSize <= kMaxRun;
  }
  co_return image;
}

Task<Status> Store::place(FileId id, std::uint64_t offset, ByteView data, Seen theirs) {
  assert(offset + data.size() <= options_.threshold);
  SLICE_CO_RETURN_IF_ERROR(co_await admit(id, data.size()));
  auto pin = table_.find(id);
  if (!pin) co_return fail(std::move(pin).error());
  File& file = **pin;
  SLICE_CO_RETURN_IF_ERROR(co_await load_range(file, offset, data.size(), true));
  if (file.removed) co_return fail(Errc::kStale, "file {:#x} was removed", id.value);
  const Epoch epoch = std::max(file.epoch, theirs.epoch);
  const nfs3::Time mtime = std::max(file.mtime, theirs.mtime);
  auto appended = journal(file, {.kind = JournalRecord::Kind::kWrite,
                                 .epoch = epoch,
                                 .file = id,
                                 .mtime = mtime,
                                 .offset = offset,
                                 .data = data});
  if (!appended) co_return fail(std::move(appended).error());
  file.epoch = epoch;
  file.mtime = mtime;
  file.write(offset, data);
  changed(file);
  co_return Status{};
}

std::vector<FileId> Store::without_record(const std::vector<std::uint32_t>& sites) const {
  std::vector<FileId> files;
  auto add = [&](const File& file) {
    if (!file.saved && !file.removed && wire::has_site(sites, file.site.value)) files.push_back(file.id);
  };
  for (const File* file : table_.waiting()) add(*file);
  for (const File* file : table_.flushing()) add(*file);
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

Result<Store::Recorded> Store::with_record(SiteId site, FileId from, std::size_t most) const {
  Recorded found;
  auto at = records_.iterate(key_of(site, KeyKind::kMap, from.value), key_of(site, KeyKind::kZoneEnd, 0));
  for (; at->valid() && found.files.size() < most; at->next()) {
    auto key = parse_key(at->key());
    if (!key) return fail(Errc::kCorrupt, "a key of the map records does not parse");
    found.files.push_back(FileId{key->number});
    // A damaged one is told of where the file is read.
    if (auto record = decode_map_record(at->value(), options_.threshold)) {
      for (const auto& [block, extent] : record->extents) found.bytes += extent.valid;
    }
  }
  if (Status status = at->status(); !status) return fail(std::move(status).error());
  return found;
}

}  // namespace slice::smallfile
