#include "blockd/daemon.h"

#include <memory>
#include <random>
#include <utility>

#include "block/front.h"
#include "block/volume_table.h"
#include "common/log.h"
#include "service/keys_again.h"

namespace slice::block {
namespace {

class Daemon {
 public:
  Daemon(const EnsembleConfig& config, const DaemonOptions& options, service::Notify& notify)
      : config_(config),
        options_(options),
        notify_(notify),
        keys_(config),
        front_(options.front, notify,
               {.read_again = [this] { read_files_again(); },
                .finish = [this] { finish(); },
                .busy = [this] { return link_.running() + aoe_.running() > 0; },
                .flush_all = [this] { return flush_all(); }}),
        path_(front_.loop(), config, keys_, front_.metrics()),
        link_(front_.loop(), front_.metrics(), options.link),
        aoe_(front_.loop(), front_.metrics(), options.aoe) {}

  int run() {
    spawn(begin());
    return front_.run();
  }

 private:
  Task<void> begin() {
    if (Status begun = co_await start(); !begun) front_.fail(begun.error());
  }
  Task<Status> start();
  Status load_tls();
  Status serve_by_others();
  void finish();
  void read_files_again();
  Task<Status> flush_all() { co_return volumes_ == nullptr ? Status{} : co_await volumes_->flush_all(); }

  const EnsembleConfig& config_;
  const DaemonOptions& options_;
  service::Notify& notify_;
  rpc::KeyRing keys_;
  Front front_;
  DataPath path_;
  std::unique_ptr<rpc::Tls> tls_;
  std::unique_ptr<VolumeTable> volumes_;
  LinkPorts link_;
  AoePorts aoe_;
};

Status Daemon::load_tls() {
  SLICE_RETURN_IF_ERROR(keys_.use_tls(config_.network.tls.of(options_.name)));
  if (!options_.tls.used()) return {};
  auto tls = rpc::Tls::load(options_.tls, rpc::Tls::Peers::kClients);
  if (!tls) return fail(std::move(tls.error()));
  tls_ = std::move(*tls);
  return {};
}

// Than NBD.
Status Daemon::serve_by_others() {
  SLICE_RETURN_IF_ERROR(link_.open());
  link_.serve(*volumes_);
  return aoe_.serve(*volumes_);
}

void Daemon::finish() {
  link_.finish();
  aoe_.finish();
}

Task<Status> Daemon::start() {
  SLICE_CO_RETURN_IF_ERROR(load_tls());
  SLICE_CO_RETURN_IF_ERROR(front_.show_metrics());
  notify_.status("waiting for the manager");
  co_await path_.start();
  std::random_device random;
  volumes_ =
      std::make_unique<VolumeTable>(front_.loop(), config_, path_, front_.metrics(),
                                    VolumeTable::Options{.only = options_.front.volumes,
                                                         .patience = options_.front.patience,
                                                         .seed = (std::uint64_t{random()} << 32) + random()});
  NbdOptions nbd;
  nbd.tls = tls_.get();
  nbd.certificates = !options_.tls.authority.empty();
  nbd.only_tls = options_.only_tls || nbd.certificates;
  co_return front_.serve(*volumes_, std::move(nbd), [this] { return serve_by_others(); });
}

void Daemon::read_files_again() {
  log_info("SIGHUP: volumes that were opened elsewhere may be again here");
  if (tls_ != nullptr) {
    if (Status read = tls_->reload(); !read)
      log_error("SIGHUP: NBD's certificate stays as it was: {}", read.error().message);
  }
  service::read_keys_again(config_, keys_);
  link_.read_keys_again();
  if (volumes_ != nullptr) volumes_->forgive();
}

}  // namespace

int serve(const EnsembleConfig& config, const DaemonOptions& options, service::Notify& notify) {
  // Requests may still be under way at the end: nothing is taken apart beneath them.
  auto* daemon = new Daemon(config, options, notify);
  return daemon->run();
}

}  // namespace slice::block
