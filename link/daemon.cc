#include "link/daemon.h"

#include <memory>
#include <utility>

#include "block/front.h"
#include "common/log.h"
#include "link/initiator.h"
#include "link/key_file.h"

namespace slice::link {
namespace {

constexpr Duration kToldPause = std::chrono::milliseconds(20);

class Daemon {
 public:
  Daemon(const DaemonOptions& options, service::Notify& notify)
      : options_(options),
        front_(options.front, notify,
               {.read_again = [this] { read_key_again(); },
                .finish = [] {},
                .busy = [] { return false; },
                .flush_all = [this] { return flush_and_leave(); }}) {}

  int run() {
    if (Status started = start(); !started) front_.fail(started.error());
    return front_.run();
  }

 private:
  Status start();
  Status open_port();
  void read_key_again();
  Task<Status> flush_and_leave();

  const DaemonOptions& options_;
  block::Front front_;
  std::unique_ptr<SocketPort> port_;
  Address target_;
  std::unique_ptr<Initiator> initiator_;
};

Status Daemon::open_port() {
  if (options_.udp) {
    const rpc::Endpoint any{options_.udp->address.is_v4() ? IpAddress(0) : *parse_address("::"), 0};
    auto port = SocketPort::udp(front_.loop(), front_.metrics(), any, options_.udp);
    if (!port) return fail(std::move(port.error()));
    port_ = std::move(*port);
    target_ = SocketPort::address_of(*options_.udp);
    return {};
  }
  auto port = SocketPort::ethernet(front_.loop(), front_.metrics(), options_.interface);
  if (!port) return fail(std::move(port.error()));
  port_ = std::move(*port);
  target_ = port_->address_of(options_.target);
  return {};
}

Status Daemon::start() {
  auto key = read_key(options_.key);
  if (!key) return fail(std::move(key.error()));
  SLICE_RETURN_IF_ERROR(open_port());
  initiator_ = std::make_unique<Initiator>(front_.loop(), *port_, target_, front_.metrics(),
                                           InitiatorOptions{.key = *key,
                                                            .client = options_.client,
                                                            .volumes = options_.front.volumes,
                                                            .patience = options_.front.patience});
  SLICE_RETURN_IF_ERROR(front_.show_metrics());
  return front_.serve(*initiator_, {});
}

void Daemon::read_key_again() {
  log_info("SIGHUP: volumes that were taken away may be used again here");
  initiator_->forgive();
  if (auto key = read_key(options_.key)) {
    initiator_->set_key(*key);
  } else {
    log_error("SIGHUP: the key stays as it was: {}", key.error().message);
  }
}

Task<Status> Daemon::flush_and_leave() {
  Status flushed = co_await initiator_->flush_all();
  initiator_->close();
  co_await front_.loop().sleep(kToldPause);  // the target is told
  co_return flushed;
}

}  // namespace

int serve(const DaemonOptions& options, service::Notify& notify) {
  // Requests may still be under way at the end: nothing is taken apart beneath them.
  auto* daemon = new Daemon(options, notify);
  return daemon->run();
}

}  // namespace slice::link
