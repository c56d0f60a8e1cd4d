#include "smallfile/server.h"

#include "common/log.h"

namespace slice::smallfile {
namespace {

// Of the server's memory for caching: files get most, the map records' store the rest.
constexpr std::uint64_t kFileShare = 6, kRecordShare = 1, kRecordBufferShare = 1, kShares = 8;

}  // namespace

SmallFileServer::SmallFileServer(service::ServiceContext& context, service::OpenStore open_records)
    : context_(context),
      open_records_(std::move(open_records)),
      zones_(context.loop, context.disk),
      authority_(context, [this](const routing::FileHandle& handle) { return stored(handle.fileid); }),
      gate_(context.loop),
      nfs_(context, wire::Role::kSmallFile, &gate_) {}

Task<Status> SmallFileServer::start() {
  const EnsembleConfig& config = context_.config;
  if (config.volume.threshold == 0 || config.volume.threshold % kBlockSize != 0) {
    co_return fail(Errc::kInvalid,
                   "volume.threshold is {}: the small-file server serves a multiple of {} bytes",
                   config.volume.threshold, kBlockSize);
  }
  const std::uint64_t share = context_.self.cache_bytes / kShares;
  auto records = open_records_ ? open_records_(context_)
                               : co_await service::open_store(context_, "maps",
                                                              {.cache_bytes = share * kRecordShare,
                                                               .memory_bytes = share * kRecordBufferShare});
  if (!records) co_return fail(records.error(), "map records");
  records_ = std::move(*records);
  StoreOptions options{
      .threshold = config.volume.threshold,
      .sites = config.site_counts[static_cast<std::size_t>(wire::Role::kSmallFile)],
      .site_of = [this](FileId file) { return context_.tables.get()->small_file_site(file); },
      .cache_bytes = context_.self.cache_bytes * kFileShare / kShares,
      .reserve_bytes = context_.settings.get()->reserve_of(context_.self)};
  auto store = co_await Store::open(context_.loop, context_.disk, *records_, zones_, context_.metrics,
                                    std::move(options), context_.crash);
  if (!store) co_return fail(std::move(store).error());
  store_ = std::move(*store);
  sites_.emplace(context_, *store_, authority_, nfs_.late_writes(), gate_);
  shared_.emplace(
      Shared{context_, *store_, *sites_, authority_,
             context_.metrics.counter(
                 "smallfile_commits_passed_on_total",
                 "COMMITs of files that storage nodes hold bytes of too, passed on to the coordinator")});
  add_operations();
  moves_ = std::make_unique<service::SiteMoves>(context_, wire::Role::kSmallFile, gate_, *sites_);
  objects_ = std::make_unique<ObjectProgram>(context_, *store_, *sites_, authority_, gate_, *moves_);
  moves_->start();
  co_return Status{};
}

void SmallFileServer::add_operations() {
  nfs_.set_authority(authority_);
  nfs_.on<nfs3::ReadArgs>(nfs3::Procedure::kRead,
                          [this](service::NfsRequest& request, const nfs3::ReadArgs& args,
                                 rpc::XdrWriter& results) { return read(*shared_, request, args, results); });
  nfs_.on<nfs3::WriteArgs>(
      nfs3::Procedure::kWrite,
      [this](service::NfsRequest& request, const nfs3::WriteArgs& args, rpc::XdrWriter& results) {
        return write(*shared_, request, args, results);
      });
  nfs_.on<nfs3::CommitArgs>(
      nfs3::Procedure::kCommit,
      [this](service::NfsRequest& request, const nfs3::CommitArgs& args, rpc::XdrWriter& results) {
        return commit(*shared_, request, args, results);
      });
}

std::optional<std::uint64_t> SmallFileServer::stored(FileId file) {
  const routing::RoutingTables& tables = *context_.tables.get();
  const bool ours = tables.owns(context_.self.index, wire::Role::kSmallFile, tables.small_file_site(file));
  // Of a file whose site has moved another server tells.
  if (!store_ || !ours) return std::nullopt;
  auto bytes = store_->stored(file);
  return bytes ? std::optional(*bytes) : std::nullopt;
}

void SmallFileServer::settings_changed() {
  if (store_) store_->set_reserve(context_.settings.get()->reserve_of(context_.self));
}

std::vector<rpc::Program*> SmallFileServer::programs() {
  return {&nfs_, objects_.get(), moves_.get()};
}

// What needs nobody else before what does: the authority may be stopping too.
Task<void> SmallFileServer::stop() {
  co_await moves_->stop();
  if (Status status = co_await store_->save(); !status) {
    log_warning("not everything is saved: the journal has the rest reason={}", status.error().message);
  }
  if (Status status = co_await store_->record_end(); !status) {
    log_warning("how far the journal goes is not recorded reason={}", status.error().message);
  }
  if (Status status = records_->record_end(); !status) {
    log_warning("how far the map records go is not recorded reason={}", status.error().message);
  }
  co_await authority_.flush();
}

std::string SmallFileServer::state() const {
  if (!store_) return "starting";
  if (store_->failed()) return "failed: cannot write, restart it";
  return store_->full() ? "read-only: no space" : "serving";
}

std::string SmallFileServer::detail() const {
  if (!store_) return "";
  return fmt::format("{} files in {} MiB of memory, journal {} MiB", store_->table().size(),
                     store_->table().used_bytes() >> 20, store_->journal_bytes() >> 20);
}

service::ServerKind server_kind() {
  return {
      .role = ServerRole::kSmallFile, .draws_verifier = true, .make = [](service::ServiceContext& context) {
        return std::make_unique<SmallFileServer>(context);
      }};
}

}  // namespace slice::smallfile
