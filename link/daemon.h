// Daemon: slice-link as a whole: raw volumes that a slice-blockd serves over the link, for block clients of
// this host, by NBD. It needs no key of the ensemble.
#ifndef SLICE_LINK_DAEMON_H
#define SLICE_LINK_DAEMON_H

#include <optional>
#include <string>

#include "block/front_options.h"
#include "link/socket_port.h"
#include "rpc/endpoint.h"
#include "service/notify.h"

namespace slice::link {

struct DaemonOptions {
  std::string key;                   // its file
  std::optional<rpc::Endpoint> udp;  // the target, over UDP
  std::string interface;             // or by Ethernet frames on this one
  HardwareAddress target{};          // at this address
  std::string client;                // as which the target knows this host
  block::FrontOptions front;
};

// Until a signal ends it; the exit code.
int serve(const DaemonOptions& options, service::Notify& notify);

}  // namespace slice::link

#endif  // SLICE_LINK_DAEMON_H
