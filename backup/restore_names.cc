// Of a directory server.
#include <algorithm>
#include <set>
#include <utility>

#include "backup/reconcile.h"
#include "backup/restore.h"
#include "backup/sites.h"
#include "common/metrics.h"
#include "dirserver/cells/cells.h"
#include "fsck/object_cursor.h"
#include "storage/rocks_store.h"
#include "wire/moves.h"
#include "wire/nfs_status.h"

namespace slice::backup {
namespace {

using dirserver::AttributeCell;
using dirserver::CellKind;
using fsck::ObjectCursor;
using service::ObjectSource;

constexpr std::size_t kLeastKey = 5;  // bytes: its site and kind
constexpr std::size_t kBatchBytes = 256 << 10;
constexpr std::chrono::seconds kTelling{60};   // servers have told of what they store by then
constexpr std::size_t kLookedAtTogether = 64;  // files that are looked at together
constexpr std::uint64_t kCacheBytes = 32 << 20;
constexpr std::uint64_t kMostFileIds = std::uint64_t{1} << 48;  // of a site

class Names {
 public:
  Names(RestoreSeams seams, const std::vector<std::unique_ptr<ObjectSource>>& data_servers)
      : seams_(std::move(seams)), data_servers_(data_servers) {}

  Task<Result<RestoredNames>> run() {
    const std::vector<std::uint32_t> own = wire::sites_of(seams_.tables->wire(), seams_.self.name);
    SLICE_CO_RETURN_IF_ERROR(check_files(seams_, own));
    auto store = storage::RocksStore::open(
        seams_.loop, metrics_, {.folder = seams_.self.data + "/cells", .cache_bytes = kCacheBytes});
    if (!store) co_return fail(std::move(store).error());
    store_ = std::move(*store);
    batch_.put(dirserver::format_key(), made_for(seams_.config, wire::Role::kDirectory));
    for (const auto& file : seams_.files) SLICE_CO_RETURN_IF_ERROR(co_await read(*file, own));
    for (std::uint32_t site : own) {
      if (!numbered_.contains(site)) SLICE_CO_RETURN_IF_ERROR(skip_file_ids(SiteId{site}, 1));
    }
    SLICE_CO_RETURN_IF_ERROR(apply());
    SLICE_CO_RETURN_IF_ERROR(co_await store_->durable(last_));
    SLICE_CO_RETURN_IF_ERROR(store_->record_end());
    store_.reset();
    SLICE_CO_RETURN_IF_ERROR(co_await record_sites(seams_));
    co_return restored_;
  }

 private:
  struct File {
    AttributeCell cell;
    std::vector<ObjectSource*> holders;
  };

  Task<Status> read(Reader& file, const std::vector<std::uint32_t>& own) {
    told_ = nfs3::time_of(WallTime{file.header().taken.ns - std::chrono::nanoseconds(kTelling).count()});
    while (true) {
      auto cell = file.next_of<Cell>("cell");
      if (!cell) co_return fail(std::move(cell).error());
      if (!*cell) break;
      if ((*cell)->key.size() < kLeastKey)
        co_return fail(Errc::kCorrupt, "{}: a record that is no cell", file.path());
      if (wire::has_site(own, dirserver::site_of_key((*cell)->key).value))
        SLICE_CO_RETURN_IF_ERROR(co_await take(std::move(**cell)));
    }
    co_return co_await look_at_files();
  }

  Task<Status> take(Cell cell) {
    const SiteId site = dirserver::site_of_key(cell.key);
    if (site != site_) SLICE_CO_RETURN_IF_ERROR(co_await begin(site));
    ++restored_.cells;
    const CellKind kind = dirserver::kind_of_key(cell.key);
    if (kind == CellKind::kAttributes) {
      auto decoded = dirserver::decode_attribute_cell(site, cell.value);
      if (!decoded) co_return fail(decoded.error(), "an attribute cell of the backup");
      if (decoded->regular()) co_return co_await take_file(std::move(*decoded));
      co_return put(std::move(cell));
    }
    SLICE_CO_RETURN_IF_ERROR(co_await look_at_files());
    if (kind == CellKind::kSequence) {
      auto next = dirserver::decode_number(cell.value);
      if (!next) co_return fail(next.error(), "a sequence of the backup");
      co_return skip_file_ids(site, *next);
    }
    // What was to be cut was cut since, and perhaps written again; who had locks then has them no more.
    const bool is_over =
        kind == CellKind::kClientLocks ||
        (kind == CellKind::kTruncation && cut_since_.contains(dirserver::last_number(cell.key)));
    co_return is_over ? Status{} : put(std::move(cell));
  }

  Task<Status> begin(SiteId site) {
    SLICE_CO_RETURN_IF_ERROR(co_await look_at_files());
    site_ = site;
    cut_since_.clear();
    cursors_.clear();
    const FileId before{std::uint64_t{site.value} << 48};
    for (const auto& each : data_servers_)
      cursors_.push_back(std::make_unique<ObjectCursor>(*each, seams_.config.volume.id, before));
    co_return Status{};
  }

  Task<Status> take_file(AttributeCell cell) {
    File file{.cell = std::move(cell), .holders = {}};
    const FileId id = file.cell.self.cell.fileid;
    for (const auto& cursor : cursors_) {
      while (true) {
        auto at = co_await cursor->at();
        if (!at) co_return fail(at.error(), cursor->source().server().name);
        if (!*at || **at >= id) {
          if (*at && **at == id) file.holders.push_back(&cursor->source());
          break;
        }
        cursor->next();
      }
    }
    files_.push_back(std::move(file));
    if (files_.size() < kLookedAtTogether) co_return Status{};
    co_return co_await look_at_files();
  }

  Task<Status> look_at_files() {
    std::vector<Task<Result<std::vector<Found>>>> looking;
    for (const File& file : files_) looking.push_back(look(file));
    const auto found = co_await slice::all(std::move(looking));
    for (std::size_t i = 0; i < files_.size(); ++i) {
      if (!found[i]) co_return fail(found[i].error());
      SLICE_CO_RETURN_IF_ERROR(put_file(files_[i].cell, *found[i]));
    }
    files_.clear();
    co_return Status{};
  }

  Task<Result<std::vector<Found>>> look(const File& file) {
    std::vector<Found> found;
    for (ObjectSource* holder : file.holders) {
      const wire::ServerEntry& server = holder->server();
      auto stat = co_await holder->stat(
          {seams_.config.volume.id, file.cell.self.cell.fileid, wire::ObjectKind::kFile});
      if (!stat) co_return fail(stat.error(), server.name);
      if (stat->status == nfs3::Status::kNoEnt) continue;
      if (stat->status != nfs3::Status::kOk)
        co_return fail(Errc::kIo, "{} answered {}", server.name, nfs3::status_name(stat->status));
      found.push_back({server.server, server.role, stat->end, stat->allocated, stat->epoch});
    }
    co_return found;
  }

  Status put_file(AttributeCell& cell, const std::vector<Found>& found) {
    const FileId id = cell.self.cell.fileid;
    const std::uint64_t size = cell.size;
    const Since since = reconcile(cell, found, nfs3::time_of(seams_.loop.wall()), told_);
    if (since == Since::kGrew) {
      ++restored_.grown;
      seams_.note({id, fmt::format("was written since: {} bytes, in the backup {}", cell.size, size)});
    } else if (since == Since::kCut) {
      ++restored_.cut;
      cut_since_.insert(id.value);
      seams_.note({id, fmt::format("its size was set since: {} bytes, in the backup {}", cell.size, size)});
    } else if (since == Since::kGone) {
      ++restored_.gone;
      cut_since_.insert(id.value);
      seams_.note({id, fmt::format("was removed since: it is empty, in the backup it had {} bytes", size)});
    }
    return put({dirserver::attribute_key(cell.self.cell.site, id), encode(cell)});
  }

  Status skip_file_ids(SiteId site, std::uint64_t next) {
    if (next > kMostFileIds - 2 * kFileIdsSkipped)
      return fail(Errc::kInvalid, "site {} has too few fileIDs left for another restore", site.value);
    numbered_.insert(site.value);
    return put({dirserver::sequence_key(site), dirserver::encode_number(next + kFileIdsSkipped)});
  }

  Status put(Cell cell) {
    bytes_ += cell.key.size() + cell.value.size();
    batch_.put(std::move(cell.key), std::move(cell.value));
    return bytes_ < kBatchBytes ? Status{} : apply();
  }

  Status apply() {
    auto position = store_->apply(batch_);
    if (!position) return fail(std::move(position).error());
    last_ = *position;
    batch_ = {};
    bytes_ = 0;
    return {};
  }

  RestoreSeams seams_;
  const std::vector<std::unique_ptr<ObjectSource>>& data_servers_;
  Metrics metrics_;
  std::unique_ptr<storage::RocksStore> store_;
  storage::WriteBatch batch_;
  std::size_t bytes_ = 0;
  storage::LogPosition last_;

  nfs3::Time told_;  // as reconcile() has it, of the file that is read
  std::optional<SiteId> site_;
  std::vector<std::unique_ptr<ObjectCursor>> cursors_;
  std::vector<File> files_;            // that are to be looked at
  std::set<std::uint64_t> cut_since_;  // of the site
  std::set<std::uint32_t> numbered_;   // sites
  RestoredNames restored_;
};

Task<Result<RestoredNames>> run(std::unique_ptr<Names> names) {
  co_return co_await names->run();
}

}  // namespace

Task<Result<RestoredNames>> restore_names(RestoreSeams seams,
                                          const std::vector<std::unique_ptr<ObjectSource>>& data_servers) {
  return run(std::make_unique<Names>(std::move(seams), data_servers));
}

}  // namespace slice::backup
