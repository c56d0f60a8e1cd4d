#include "dirserver/fsck/local_source.h"

#include <filesystem>

#include "dirserver/cells/scan_page.h"
#include "rpc/epoll_loop.h"
#include "service/ownership.h"
#include "storage/posix_disk.h"
#include "storage/rocks_store.h"
#include "wire/nfs_status.h"

namespace slice::dirserver::fsck {
namespace {

constexpr std::uint64_t kCacheBytes = 8 << 20;  // of each store: it is read in order

bool has_cells(const storage::KvStore& store, SiteId site) {
  KeyRange range{attribute_key(site, {}).substr(0, 4),
                 attribute_key(SiteId{site.value + 1}, {}).substr(0, 4)};
  auto at = store.iterate(range.begin, range.end);
  return at->valid() || !at->status();  // what cannot be read is there
}

// What of a store's format text says where names are.
Status check_format(const storage::KvStore& store, const EnsembleConfig& config, std::uint32_t sites) {
  auto stored = store.get(format_key());
  if (!stored) return fail(stored.error(), "the store's format");
  if (!*stored) return fail(Errc::kInvalid, "the store has no format: its server has never started");
  const VolumeConfig& volume = config.volume;
  bool hashed = volume.policy == VolumeConfig::NamePolicy::kNameHashing;
  bool md5 = volume.hash == VolumeConfig::NameHash::kMd5;
  for (const std::string& word :
       {fmt::format(" volume={}", volume.id.value),
        fmt::format(" policy={}", hashed ? "name-hashing" : "mkdir-switching"),
        fmt::format(" hash={}", md5 ? "md5" : "siphash13"), fmt::format(" sites={}", sites)}) {
    if ((**stored + " ").find(word + " ") == std::string::npos) {
      return fail(Errc::kInvalid, "the store was made for \"{}\", the configuration says{}", **stored, word);
    }
  }
  return {};
}

std::uint64_t bytes_in(const std::string& folder) {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder, error)) {
    std::uint64_t size = file.is_regular_file(error) ? file.file_size(error) : 0;
    if (!error) bytes += size;
  }
  return bytes;
}

// Which sites the server has, where it knows that durably.
Status read_record(const ServerConfig& server, LocalSource::Store& store) {
  rpc::EpollLoop loop;
  auto disk = storage::PosixDisk::open(loop, server.data);
  if (!disk) return fail(disk.error());
  service::Ownership record(loop, **disk, server);
  SLICE_RETURN_IF_ERROR(rpc::run_to_end(loop, record.load()));
  if (!record.known()) return {};
  store.sites.emplace();
  for (const wire::OwnedSite& each : record.sites()) store.sites->insert(each.site);
  for (const auto& [site, offered] : record.offered()) store.offered.insert(site);
  return {};
}

Result<LocalSource::Store> open_store(const EnsembleConfig& config, ServerConfig server) {
  std::error_code error;
  // Claiming makes what is not there, which a check must not.
  if (!std::filesystem::exists(server.data + "/FORMAT", error)) {
    return fail(
        Errc::kNotFound,
        "{}: no data directory {} on this host: run this where it is, name a copy with --folder {}=FOLDER, "
        "or ask the running servers, without --offline",
        server.name, server.data, server.name);
  }
  auto claim = service::DataDirectory::claim(server, config.volume.id);
  if (!claim && claim.error().code == Errc::kExists) {
    return fail(Errc::kExists, "{} is running (it holds {}): stop it, or check without --offline",
                server.name, server.data);
  }
  if (!claim) return fail(claim.error(), server.name);
  std::string folder = server.data + "/cells";
  storage::RocksStore::Options options;
  options.folder = folder;
  options.cache_bytes = kCacheBytes;
  auto store = storage::open_rocks_read_only(options);
  if (!store) return fail(store.error(), server.name);
  auto sites = config.site_counts[static_cast<std::size_t>(ServerRole::kDirectory)];
  if (auto good = check_format(**store, config, sites); !good) return fail(good.error(), server.name);
  LocalSource::Store opened{server.name, std::move(*store), std::move(*claim), bytes_in(folder)};
  if (auto read = read_record(server, opened); !read) return fail(read.error(), server.name);
  return opened;
}

}  // namespace

Result<std::unique_ptr<LocalSource>> LocalSource::open(const EnsembleConfig& config,
                                                       const std::map<std::string, std::string>& folders) {
  for (const auto& [name, folder] : folders) {
    const ServerConfig* server = config.find(name);
    if (server == nullptr) {
      return fail(Errc::kInvalid, "--folder {}={}: no server has this name", name, folder);
    }
  }
  std::vector<Store> stores;
  for (ServerConfig server : config.servers) {
    if (server.role != ServerRole::kDirectory) continue;
    if (auto folder = folders.find(server.name); folder != folders.end()) server.data = folder->second;
    auto store = open_store(config, std::move(server));
    if (!store) return fail(std::move(store).error());
    stores.push_back(std::move(*store));
  }
  return std::make_unique<LocalSource>(std::move(stores),
                                       config.site_counts[static_cast<std::size_t>(ServerRole::kDirectory)]);
}

LocalSource::Has LocalSource::has(const Store& store, SiteId site) {
  if (!store.sites) return has_cells(*store.cells, site) ? Has::kYes : Has::kNo;
  if (store.sites->contains(site.value)) return Has::kYes;
  return store.offered.contains(site.value) ? Has::kMaybe : Has::kNo;
}

LocalSource::LocalSource(std::vector<Store> stores, std::uint32_t sites)
    : stores_(std::move(stores)), store_of_(sites, 0) {
  for (SiteId site{0}; site.value < sites; ++site.value) {
    const Store* owner = nullptr;
    std::size_t& store_of = store_of_[site.value];
    for (std::size_t i = 0; i < stores_.size(); ++i) {
      const Has has_it = has(stores_[i], site);
      if (has_it == Has::kMaybe && owner == nullptr) store_of = i;
      if (has_it != Has::kYes) continue;
      if (owner == nullptr) {
        owner = &stores_[i];
        store_of = i;
      } else {
        conflicts_.push_back({.kind = Kind::kSiteTwice,
                              .site = site,
                              .what = fmt::format("{} and {} both have cells of it; those of {} are checked",
                                                  owner->server, stores_[i].server, owner->server)});
      }
    }
  }
}

Task<Result<wire::ScanResult>> LocalSource::scan(wire::ScanArgs args) {
  wire::ScanResult result = scan_page(*stores_[store_of_.at(args.site.value)].cells, args);
  if (result.status != nfs3::Status::kOk) {
    co_return fail(Errc::kInvalid, "site {}: {}", args.site.value, nfs3::status_name(result.status));
  }
  co_return result;
}

std::uint64_t LocalSource::disk_bytes() const {
  std::uint64_t bytes = 0;
  for (const Store& store : stores_) bytes += store.disk_bytes;
  return bytes;
}

}  // namespace slice::dirserver::fsck
