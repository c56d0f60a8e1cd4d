// Of a small-file server, and of a manager.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "backup/restore.h"
#include "backup/sites.h"
#include "common/metrics.h"
#include "dirserver/cells/cells.h"
#include "smallfile/store.h"
#include "smallfile/zone_store.h"
#include "storage/durable_file.h"
#include "storage/rocks_store.h"

namespace slice::backup {
namespace {

using dirserver::AttributeCell;
using dirserver::CellKind;
using smallfile::Store;

constexpr std::uint64_t kRecordCache = 32 << 20;
constexpr std::size_t kPlacedAtOnce = 1 << 20;
// What stands for bytes that are lost: as it is put there, and what it is then changed to, so that its
// checksum does not fit and reading it is an error.
constexpr std::uint8_t kPutForLost = 0x5a, kLost = 0xa5;

// The images of one file of a backup that are of these sites, one after the other.
class ImageCursor {
 public:
  explicit ImageCursor(Reader& file) : file_(file) {}
  // Nothing at the end.
  Result<const Image*> at() {
    if (image_ || ended_) return image_ ? &*image_ : nullptr;
    auto image = file_.next_of<Image>("file");
    if (!image) return fail(std::move(image).error());
    image_ = std::move(*image);
    ended_ = !image_;
    if (ended_) return nullptr;
    if (image_->file <= last_) return fail(Errc::kCorrupt, "{}: files are not in order", file_.path());
    last_ = image_->file;
    return &*image_;
  }
  void next() { image_.reset(); }

 private:
  Reader& file_;
  std::optional<Image> image_;
  FileId last_;
  bool ended_ = false;
};

// The attribute cells of a backup, which are asked for in the order of their fileIDs.
class CellsThen {
 public:
  explicit CellsThen(std::vector<std::unique_ptr<Reader>>& files) {
    for (const auto& file : files) {
      for (std::uint32_t site : file->header().sites) by_site_[site] = readers_.size();
      readers_.push_back({file.get(), {}, false});
    }
  }
  // Nothing: the file was not there.
  Result<std::optional<AttributeCell>> of(SiteId site, FileId file) {
    auto found = by_site_.find(site.value);
    if (found == by_site_.end()) return std::optional<AttributeCell>();
    Cursor& at = readers_[found->second];
    const std::string key = dirserver::attribute_key(site, file);
    while (!at.ended && at.cell.key < key) {
      auto cell = at.file->next_of<Cell>("cell");
      if (!cell) return fail(std::move(cell).error());
      at.ended = !*cell;
      if (*cell) at.cell = std::move(**cell);
    }
    if (at.ended || at.cell.key != key) return std::optional<AttributeCell>();
    auto decoded = dirserver::decode_attribute_cell(site, at.cell.value);
    if (!decoded) return fail(decoded.error(), at.file->path());
    return std::optional(std::move(*decoded));
  }

 private:
  struct Cursor {
    Reader* file;
    Cell cell;
    bool ended;
  };
  std::vector<Cursor> readers_;
  std::map<std::uint32_t, std::size_t> by_site_;
};

class Files {
 public:
  Files(RestoreSeams seams, dirserver::fsck::CellSource& cells, std::vector<std::unique_ptr<Reader>>& then)
      : seams_(std::move(seams)), cells_(cells), then_(then), zones_(seams_.loop, seams_.disk) {
    for (const auto& file : seams_.files) cursors_.emplace_back(*file);
  }

  Task<Result<RestoredFiles>> run() {
    own_ = wire::sites_of(seams_.tables->wire(), seams_.self.name);
    SLICE_CO_RETURN_IF_ERROR(check_files(seams_, own_));
    SLICE_CO_RETURN_IF_ERROR(co_await open());
    for (std::uint32_t site = 0; site < cells_.sites(); ++site)
      SLICE_CO_RETURN_IF_ERROR(co_await read_site(SiteId{site}));
    SLICE_CO_RETURN_IF_ERROR(pass_images(std::nullopt));
    SLICE_CO_RETURN_IF_ERROR(co_await close());
    SLICE_CO_RETURN_IF_ERROR(co_await record_sites(seams_));
    co_return restored_;
  }

 private:
  struct Lost {
    FileId file;
    std::uint64_t from = 0;  // offset
  };

  Task<Status> open() {
    auto records = storage::RocksStore::open(
        seams_.loop, metrics_, {.folder = seams_.self.data + "/maps", .cache_bytes = kRecordCache});
    if (!records) co_return fail(std::move(records).error());
    records_ = std::move(*records);
    auto store = co_await Store::open(
        seams_.loop, seams_.disk, *records_, zones_, metrics_,
        {.threshold = seams_.config.volume.threshold,
         .sites = seams_.config.site_counts[static_cast<std::size_t>(wire::Role::kSmallFile)],
         .site_of = [this](FileId file) { return zone_of(file); }});
    if (!store) co_return fail(std::move(store).error());
    store_ = std::move(*store);
    co_return Status{};
  }

  Task<Status> read_site(SiteId site) {
    dirserver::fsck::Cursor at(cells_, site, dirserver::range_of(site, CellKind::kAttributes));
    while (true) {
      auto there = co_await at.fill();
      if (!there) co_return fail(std::move(there).error());
      if (!*there) co_return Status{};
      auto cell = dirserver::decode_attribute_cell(site, at.cell().value);
      at.next();
      if (!cell) co_return fail(cell.error(), "an attribute cell");
      const FileId file = cell->self.cell.fileid;
      if (!cell->regular() || !owns(file)) continue;
      SLICE_CO_RETURN_IF_ERROR(pass_images(file));
      auto cursor = cursor_at(file);
      if (!cursor) co_return fail(std::move(cursor).error());
      auto then = then_.of(site, file);
      if (!then) co_return fail(std::move(then).error());
      SLICE_CO_RETURN_IF_ERROR(
          co_await restore(*cell, *then, *cursor != nullptr ? *(*cursor)->at() : nullptr));
      if (*cursor != nullptr) (*cursor)->next();
    }
  }

  SiteId zone_of(FileId file) const { return seams_.tables->small_file_site(file); }
  bool owns(FileId file) const { return wire::has_site(own_, zone_of(file).value); }

  // Images of files below `file` have no attribute cell by now.
  Status pass_images(std::optional<FileId> file) {
    for (ImageCursor& cursor : cursors_) {
      while (true) {
        auto image = cursor.at();
        if (!image) return fail(std::move(image).error());
        if (*image == nullptr || (file && (*image)->file >= *file)) break;
        if (owns((*image)->file)) ++restored_.unused;
        cursor.next();
      }
    }
    return {};
  }

  // Whose image is the file's; null: there is none.
  Result<ImageCursor*> cursor_at(FileId file) {
    for (ImageCursor& cursor : cursors_) {
      auto image = cursor.at();
      if (!image) return fail(std::move(image).error());
      if (*image != nullptr && (*image)->file == file) return &cursor;
    }
    return nullptr;
  }

  static bool same(const AttributeCell& a, const AttributeCell& b) {
    return a.epoch == b.epoch && a.size == b.size && a.mtime == b.mtime;
  }

  // What came to it since is lost: an error where it is read, since what was there then, or zeros, would be
  // wrong bytes. What was written over since is what it was.
  Task<Status> restore(const AttributeCell& now, const std::optional<AttributeCell>& then,
                       const Image* image) {
    const FileId file = now.self.cell.fileid;
    const bool usable = image != nullptr && image->epoch >= now.epoch;
    if (usable) SLICE_CO_RETURN_IF_ERROR(co_await place_image(*image));
    if (then && same(now, *then)) co_return Status{};
    const std::uint64_t end = std::min(now.size, store_->threshold());
    const std::uint64_t known = usable ? image->end : 0;
    if (end > known) {
      ++restored_.lost;
      seams_.note({file, usable ? fmt::format("was written since: its bytes from {} to {} are lost",
                                              first_lost(known), end)
                                : "was made or cut since: its bytes are lost"});
      co_return co_await lose(now, first_lost(known), end);
    }
    if (usable) {
      ++restored_.older;
      seams_.note({file, "was written since: its first bytes are those of the backup"});
    }
    co_return Status{};
  }

  // Blocks are read as a whole, or not at all.
  static std::uint64_t first_lost(std::uint64_t known) {
    return known / smallfile::kBlockSize * smallfile::kBlockSize;
  }

  Task<Status> place_image(const Image& image) {
    ++restored_.files;
    const Store::Seen seen{image.end, image.epoch, image.mtime};
    for (const wire::ObjectRun& run : image.runs)
      SLICE_CO_RETURN_IF_ERROR(co_await place(image.file, run.offset, as_bytes(run.data), seen));
    co_return co_await store_->place(image.file, std::min(image.end, store_->threshold()), {}, seen);
  }

  Task<Status> lose(const AttributeCell& cell, std::uint64_t from, std::uint64_t to) {
    const FileId file = cell.self.cell.fileid;
    lost_.push_back({file, from});
    Buffer bytes;
    std::fill_n(bytes.extend(to - from), to - from, kPutForLost);
    co_return co_await place(file, from, bytes.view(), {to, cell.epoch, cell.mtime});
  }

  Task<Status> place(FileId file, std::uint64_t offset, ByteView bytes, Store::Seen seen) {
    if (offset + bytes.size() > store_->threshold())
      co_return fail(Errc::kCorrupt, "file {:#x} goes beyond the threshold in the backup", file.value);
    while (!bytes.empty()) {
      const ByteView some = bytes.first(std::min(bytes.size(), kPlacedAtOnce));
      SLICE_CO_RETURN_IF_ERROR(co_await store_->place(file, offset, some, seen));
      offset += some.size();
      bytes = bytes.subspan(some.size());
    }
    co_return Status{};
  }

  Task<Status> close() {
    SLICE_CO_RETURN_IF_ERROR(co_await store_->durable_all());
    SLICE_CO_RETURN_IF_ERROR(co_await store_->save());
    std::set<SiteId> zones;
    for (const Lost& lost : lost_) {
      SLICE_CO_RETURN_IF_ERROR(co_await damage(lost));
      zones.insert(zone_of(lost.file));
    }
    for (SiteId zone : zones) SLICE_CO_RETURN_IF_ERROR(co_await zones_.sync(zone));
    SLICE_CO_RETURN_IF_ERROR(co_await store_->record_end());
    store_.reset();
    Status end = records_->record_end();
    records_.reset();
    co_return end;
  }

  Task<Status> damage(const Lost& lost) {
    auto stat = store_->stat(lost.file);
    if (!stat) co_return fail(std::move(stat).error());
    for (const wire::ObjectExtent& extent : stat->extents) {
      if (extent.offset < lost.from) continue;
      Buffer bytes;
      std::fill_n(bytes.extend(extent.length), extent.length, kLost);
      SLICE_CO_RETURN_IF_ERROR(co_await zones_.write(zone_of(lost.file), extent.place, bytes.view()));
    }
    co_return Status{};
  }

  RestoreSeams seams_;
  dirserver::fsck::CellSource& cells_;
  CellsThen then_;
  Metrics metrics_;
  smallfile::DiskZoneStore zones_;
  std::unique_ptr<storage::RocksStore> records_;
  std::unique_ptr<Store> store_;
  std::vector<std::uint32_t> own_;
  std::vector<ImageCursor> cursors_;
  std::vector<Lost> lost_;
  RestoredFiles restored_;
};

Task<Result<RestoredFiles>> run(std::unique_ptr<Files> files) {
  co_return co_await files->run();
}

}  // namespace

Task<Result<RestoredFiles>> restore_files(RestoreSeams seams, dirserver::fsck::CellSource& cells,
                                          std::vector<std::unique_ptr<Reader>>& then) {
  return run(std::make_unique<Files>(std::move(seams), cells, then));
}

Task<Result<std::uint64_t>> restore_state(RestoreSeams seams) {
  SLICE_CO_RETURN_IF_ERROR(check_files(seams, {}));
  if (seams.files.size() != 1) co_return fail(Errc::kInvalid, "the backup has more than one manager");
  Reader& file = *seams.files.front();
  std::uint64_t count = 0;
  for (;; ++count) {
    auto state = file.next_of<StateFile>("file of a manager");
    if (!state) co_return fail(std::move(state).error());
    if (!*state) co_return count;
    const std::string& name = (*state)->name;
    if (name.empty() || name.find('/') != std::string::npos)
      co_return fail(Errc::kCorrupt, "{}: '{}' is no file of a manager", file.path(), name);
    Buffer contents;
    contents.append(as_bytes((*state)->contents));
    SLICE_CO_RETURN_IF_ERROR(co_await storage::replace_file(seams.disk, name, std::move(contents)));
  }
}

}  // namespace slice::backup
