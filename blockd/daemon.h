// Daemon: slice-blockd as a whole: raw volumes of an ensemble for block clients of this host, or of others.
#ifndef SLICE_BLOCKD_DAEMON_H
#define SLICE_BLOCKD_DAEMON_H

#include <string>

#include "block/front_options.h"
#include "blockd/aoe_ports.h"
#include "blockd/link_ports.h"
#include "common/config.h"
#include "service/notify.h"

namespace slice::block {

struct DaemonOptions {
  std::string name = "slice-blockd";  // as which it is known by the ensemble's TLS, and in logs
  FrontOptions front;
  TlsConfig tls;  // that NBD clients may ask for; else there is none
  bool only_tls = false;
  LinkOptions link;
  AoeOptions aoe;
};

// Until a signal ends it; the exit code. `config`: with the members that there are.
int serve(const EnsembleConfig& config, const DaemonOptions& options, service::Notify& notify);

}  // namespace slice::block

#endif  // SLICE_BLOCKD_DAEMON_H
