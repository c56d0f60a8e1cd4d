#include "block/daemon.h"

#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <random>
#include <utility>

#include "block/nbd_server.h"
#include "block/volume_table.h"
#include "common/log.h"
#include "common/rights.h"
#include "service/keys_again.h"
#include "service/metrics_page.h"

namespace slice::block {
namespace {

constexpr Duration kLastFlush = std::chrono::seconds(5), kAnsweredPause = std::chrono::milliseconds(20);

class Daemon {
 public:
  Daemon(const EnsembleConfig& config, const DaemonOptions& options, service::Notify& notify)
      : config_(config),
        options_(options),
        notify_(notify),
        keys_(config),
        path_(loop_, config, keys_, metrics_) {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
    signals_ = ::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    loop_.watch(signals_, EPOLLIN, [this](std::uint32_t) { read_signals(); });
  }
  ~Daemon() {
    loop_.unwatch(signals_);
    ::close(signals_);
  }

  int run() {
    spawn(begin());
    loop_.run();
    nbd_.reset();  // which takes its sockets' paths away; requests under way have what they need
    return code_;
  }

 private:
  Task<void> begin() {
    if (Status begun = co_await start(); !begun) {
      log_error("{}", begun.error().message);
      end(1);
    }
  }
  Task<Status> start();
  Status load_tls();
  Status listen();
  Status show_metrics();
  bool takes(IpAddress client) const;
  void read_signals();
  void read_files_again();
  Task<void> stop();
  void end(int code) {
    code_ = code;
    loop_.stop();
  }

  const EnsembleConfig& config_;
  const DaemonOptions& options_;
  service::Notify& notify_;
  rpc::EpollLoop loop_;
  Metrics metrics_;
  rpc::KeyRing keys_;
  DataPath path_;
  std::unique_ptr<rpc::Tls> tls_;
  std::unique_ptr<VolumeTable> volumes_;
  std::unique_ptr<NbdServer> nbd_;
  std::unique_ptr<service::MetricsPage> page_;
  int signals_ = -1, code_ = 0;
  bool stopping_ = false;
};

bool Daemon::takes(IpAddress client) const {
  if (options_.allow.empty()) return client.is_loopback();
  return std::ranges::any_of(options_.allow, [&](const Network& network) { return network.has(client); });
}

Status Daemon::load_tls() {
  SLICE_RETURN_IF_ERROR(keys_.use_tls(config_.network.tls.of(options_.name)));
  if (!options_.tls.used()) return {};
  auto tls = rpc::Tls::load(options_.tls, rpc::Tls::Peers::kClients);
  if (!tls) return fail(std::move(tls.error()));
  tls_ = std::move(*tls);
  return {};
}

Status Daemon::listen() {
  for (const rpc::Endpoint& at : options_.listen) {
    auto bound = nbd_->listen(at);
    if (!bound) return fail(std::move(bound.error()));
    log_info("serves NBD at {}", rpc::to_string(*bound));
  }
  for (const std::string& path : options_.paths) {
    SLICE_RETURN_IF_ERROR(nbd_->listen(path));
    log_info("serves NBD at {}", path);
  }
  return {};
}

Status Daemon::show_metrics() {
  if (!options_.metrics) return {};
  page_ = std::make_unique<service::MetricsPage>(
      loop_, metrics_,
      service::MetricsPage::Hooks{.takes = [](IpAddress) { return true; },
                                  .refresh = [] {},
                                  .waits_for = [this] { return std::string(nbd_ ? "" : "the manager"); }});
  auto bound = page_->listen(*options_.metrics);
  if (!bound) return fail(std::move(bound.error()));
  return {};
}

Task<Status> Daemon::start() {
  SLICE_CO_RETURN_IF_ERROR(load_tls());
  SLICE_CO_RETURN_IF_ERROR(show_metrics());
  notify_.status("waiting for the manager");
  co_await path_.start();
  std::random_device random;
  volumes_ =
      std::make_unique<VolumeTable>(loop_, config_, path_, metrics_,
                                    VolumeTable::Options{.only = options_.volumes,
                                                         .patience = options_.patience,
                                                         .seed = (std::uint64_t{random()} << 32) + random()});
  NbdOptions nbd;
  nbd.takes = [this](IpAddress client) { return takes(client); };
  nbd.tls = tls_.get();
  nbd.certificates = !options_.tls.authority.empty();
  nbd.only_tls = options_.only_tls || nbd.certificates;
  nbd_ = std::make_unique<NbdServer>(loop_, metrics_, *volumes_, std::move(nbd));
  SLICE_CO_RETURN_IF_ERROR(listen());
  // Sockets are bound, and all else that needs rights is done.
  if (!keep_capabilities({})) log_warning("cannot give up capabilities");
  notify_.ready();
  notify_.status("serving");
  co_return Status{};
}

void Daemon::read_signals() {
  signalfd_siginfo got{};
  while (::read(signals_, &got, sizeof got) == sizeof got) {
    if (got.ssi_signo == SIGHUP) {
      read_files_again();
    } else if (!std::exchange(stopping_, true)) {
      notify_.stopping();
      spawn(stop());
    }
  }
}

void Daemon::read_files_again() {
  log_info("SIGHUP: volumes that were opened elsewhere may be again here");
  if (tls_ != nullptr) {
    if (Status read = tls_->reload(); !read)
      log_error("SIGHUP: NBD's certificate stays as it was: {}", read.error().message);
  }
  service::read_keys_again(config_, keys_);
  if (volumes_ != nullptr) volumes_->forgive();
}

// What clients have not flushed they cannot expect to be kept; but it costs nothing.
Task<void> Daemon::stop() {
  loop_.after(kLastFlush, [this] {
    log_warning("stopped before everything was answered and flushed");
    end(0);
  });
  if (nbd_ != nullptr) nbd_->finish();
  while (nbd_ != nullptr && nbd_->connections() > 0) co_await loop_.sleep(kAnsweredPause);
  if (volumes_ != nullptr) {
    if (Status flushed = co_await volumes_->flush_all(); !flushed)
      log_error("not everything could be flushed: {}", flushed.error().message);
  }
  end(0);
}

}  // namespace

int serve(const EnsembleConfig& config, const DaemonOptions& options, service::Notify& notify) {
  // Requests may still be under way at the end: nothing is taken apart beneath them.
  auto* daemon = new Daemon(config, options, notify);
  return daemon->run();
}

}  // namespace slice::block
