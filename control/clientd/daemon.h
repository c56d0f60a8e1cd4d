// The process of a client's proxy, and who starts it again where no service manager does.
#ifndef SLICE_CONTROL_CLIENTD_DAEMON_H
#define SLICE_CONTROL_CLIENTD_DAEMON_H

#include <functional>
#include <optional>

#include "control/clientd/place.h"

namespace slice::clientd {

struct DaemonOptions {
  Server server;
  std::filesystem::path folder = "/run/slice-client";
  std::size_t threads = 1;
  std::optional<rpc::Endpoint> metrics;  // of a page for Prometheus
};

// Serves until SIGTERM, or until nobody has used it for two minutes. `ready`: called when it serves. The exit
// code: 0, or 1 with a log line.
int serve(const DaemonOptions& options, const std::function<void()>& ready);

// Starts a process that lives on, runs serve() in another one, and starts that again where it dies. Ends well
// when it serves. What it says goes to the place's log: its guard has the same descriptors, and must not have
// those of who mounts.
Status serve_detached(const DaemonOptions& options);

}  // namespace slice::clientd

#endif  // SLICE_CONTROL_CLIENTD_DAEMON_H
