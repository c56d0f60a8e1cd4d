#include "smallfile/stopped_objects.h"

#include <algorithm>
#include <utility>

#include "storage/rocks_store.h"
#include "wire/nfs_status.h"

namespace slice::smallfile {
namespace {

constexpr std::uint64_t kRecordCache = 8 << 20;
constexpr std::uint32_t kMaxListed = 4096;

}  // namespace

StoppedObjects::StoppedObjects(Loop& loop, storage::Disk& disk, wire::ServerEntry server, VolumeId volume)
    : ObjectSource(std::move(server)), loop_(loop), volume_(volume), disk_(disk), zones_(loop, disk_) {}

Task<Result<std::unique_ptr<StoppedObjects>>> StoppedObjects::open(Loop& loop, storage::Disk& disk,
                                                                   std::string folder,
                                                                   wire::ServerEntry server,
                                                                   const EnsembleConfig& config,
                                                                   const routing::RoutingTables& tables) {
  auto made = std::make_unique<StoppedObjects>(loop, disk, std::move(server), config.volume.id);
  if (Status opened = co_await made->open_store(folder, config, tables); !opened) {
    co_return fail(opened.error(), made->server().name);
  }
  co_return std::move(made);
}

Task<Status> StoppedObjects::open_store(const std::string& folder, const EnsembleConfig& config,
                                        const routing::RoutingTables& tables) {
  auto records = storage::open_rocks_read_only({.folder = folder + "/maps", .cache_bytes = kRecordCache});
  if (!records) co_return fail(std::move(records).error());
  records_ = std::move(*records);
  auto journal = storage::LogCopy::make(loop_, folder, "journal");
  if (!journal) co_return fail(std::move(journal).error());
  journal_ = std::move(*journal);
  StoreOptions options{.threshold = config.volume.threshold,
                       .sites = config.site_counts[static_cast<std::size_t>(wire::Role::kSmallFile)],
                       .site_of = [&tables](FileId file) { return tables.small_file_site(file); },
                       .saves = false};
  auto store = co_await Store::open(loop_, journal_->disk(), *records_, zones_, metrics_, std::move(options));
  if (!store) co_return fail(std::move(store).error());
  store_ = std::move(*store);
  co_return Status{};
}

Task<Result<wire::ObjectListResult>> StoppedObjects::list(wire::ObjectListArgs args) {
  co_return list_objects(*store_, volume_, args);
}

Task<Result<wire::ObjectStatResult>> StoppedObjects::stat(wire::ObjectName object) {
  auto stat = store_->stat(object.fileid);
  if (stat) co_return std::move(*stat);
  co_return wire::ObjectStatResult{.status = nfs3::status_of(stat.error()), .extents = {}};
}

Result<wire::ObjectListResult> list_objects(const Store& store, VolumeId volume,
                                            const wire::ObjectListArgs& args) {
  wire::ObjectListResult result;
  const wire::ObjectName& after = args.after;
  if (after.volume > volume) return result;
  // There is one kind of objects here, the first: a later one of the same file is behind it.
  const FileId file = after.volume < volume ? FileId{} : after.fileid;
  auto listed = store.list(file, std::clamp(args.limit, 1u, kMaxListed));
  if (!listed) return fail(std::move(listed).error());
  for (FileId each : listed->files) result.objects.push_back({volume, each, wire::ObjectKind::kFile});
  result.end = listed->end;
  return result;
}

}  // namespace slice::smallfile
