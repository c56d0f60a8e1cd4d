#include "block/front.h"

#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <utility>

#include "common/log.h"
#include "common/rights.h"

namespace slice::block {
namespace {

constexpr Duration kLastFlush = std::chrono::seconds(5), kAnsweredPause = std::chrono::milliseconds(20);

}  // namespace

Front::Front(const FrontOptions& options, service::Notify& notify, Hooks hooks)
    : options_(options), notify_(notify), hooks_(std::move(hooks)) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  signals_ = ::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  loop_.watch(signals_, EPOLLIN, [this](std::uint32_t) { read_signals(); });
  loop_.spin(options.spin);
}

Front::~Front() {
  loop_.unwatch(signals_);
  ::close(signals_);
}

int Front::run() {
  loop_.run();
  nbd_.reset();  // which takes its sockets' paths away
  return code_;
}

void Front::end(int code) {
  code_ = code;
  loop_.stop();
}

void Front::fail(const Error& why) {
  log_error("{}", why.message);
  end(1);
}

bool Front::takes(IpAddress client) const {
  if (options_.allow.empty()) return client.is_loopback();
  return std::ranges::any_of(options_.allow, [&](const Network& network) { return network.has(client); });
}

Status Front::listen() {
  for (const rpc::Endpoint& at : options_.listen) {
    auto bound = nbd_->listen(at);
    if (!bound) return slice::fail(std::move(bound.error()));
    log_info("serves NBD at {}", rpc::to_string(*bound));
  }
  for (const std::string& path : options_.paths) {
    SLICE_RETURN_IF_ERROR(nbd_->listen(path));
    log_info("serves NBD at {}", path);
  }
  return {};
}

Status Front::show_metrics() {
  if (!options_.metrics) return {};
  auto page = service::MetricsPage::open(loop_, metrics_, *options_.metrics,
                                         [this] { return std::string(nbd_ ? "" : "the manager"); });
  if (!page) return slice::fail(std::move(page.error()));
  page_ = std::move(*page);
  return {};
}

Status Front::serve(Devices& devices, NbdOptions nbd, const std::function<Status()>& others) {
  nbd.takes = [this](IpAddress client) { return takes(client); };
  nbd_ = std::make_unique<NbdServer>(loop_, metrics_, devices, std::move(nbd));
  SLICE_RETURN_IF_ERROR(listen());
  if (others) SLICE_RETURN_IF_ERROR(others());
  if (!keep_capabilities({})) log_warning("cannot give up capabilities");
  notify_.ready();
  notify_.status("serving");
  return {};
}

void Front::read_signals() {
  signalfd_siginfo got{};
  while (::read(signals_, &got, sizeof got) == sizeof got) {
    if (got.ssi_signo == SIGHUP) {
      hooks_.read_again();
    } else if (!std::exchange(stopping_, true)) {
      notify_.stopping();
      spawn(stop());
    }
  }
}

// What clients have not flushed they cannot expect to be kept; but it costs nothing.
Task<void> Front::stop() {
  loop_.after(kLastFlush, [this] {
    log_warning("stopped before everything was answered and flushed");
    end(0);
  });
  if (nbd_ != nullptr) nbd_->finish();
  hooks_.finish();
  while ((nbd_ != nullptr && nbd_->connections() > 0) || hooks_.busy()) co_await loop_.sleep(kAnsweredPause);
  if (Status flushed = co_await hooks_.flush_all(); !flushed)
    log_error("not everything could be flushed: {}", flushed.error().message);
  end(0);
}

}  // namespace slice::block
