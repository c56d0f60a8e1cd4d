// Daemon: slice-blockd as a whole: raw volumes of an ensemble for block clients of this host, or of others.
#ifndef SLICE_BLOCK_DAEMON_H
#define SLICE_BLOCK_DAEMON_H

#include <optional>
#include <string>
#include <vector>

#include "common/config.h"
#include "rpc/endpoint.h"
#include "service/notify.h"

namespace slice::block {

inline constexpr std::uint16_t kNbdPort = 10809;

struct DaemonOptions {
  std::string name = "slice-blockd";     // as which it is known by the ensemble's TLS, and in logs
  std::vector<rpc::Endpoint> listen;     // where NBD is served over TCP
  std::vector<std::string> paths;        // and over unix sockets
  std::vector<Network> allow;            // whose TCP clients come in; none: this host's, by loopback
  std::vector<std::string> volumes;      // that are served; none: all
  Duration patience = Duration(0);       // how long a server is waited for; 0: for ever
  std::optional<rpc::Endpoint> metrics;  // of a page for Prometheus
  TlsConfig tls;                         // that NBD clients may ask for; else there is none
  bool only_tls = false;
};

// Until a signal ends it; the exit code. `config`: with the members that there are.
int serve(const EnsembleConfig& config, const DaemonOptions& options, service::Notify& notify);

}  // namespace slice::block

#endif  // SLICE_BLOCK_DAEMON_H
