// The plan of a host that is to become one of an ensemble's: its servers' names, numbers and ports, beside
// those that there are (docs/install.md). Pure.
#ifndef SLICE_CONTROL_SLICECTL_NEWCOMER_H
#define SLICE_CONTROL_SLICECTL_NEWCOMER_H

#include <string>
#include <vector>

#include "control/slicectl/host_setup.h"
#include "wire/configuration.h"

namespace slice::slicectl {

struct NewcomerOptions {
  std::string host;  // its name
  IpAddress address;
  std::string rack = {};
  std::vector<std::string> roles = {"storage"};
  std::vector<std::string> storage = {};  // folders, a storage node for each; none: one at the usual place
};

// `config`: what the manager's file says. A server that is at this address already, of a role that is asked
// for, is taken for the one that is meant: so whoever was broken off may begin again. kInvalid: a role that
// cannot be added, a name that another host has.
Result<Host> plan_newcomer(const NewcomerOptions& options, const EnsembleConfig& config,
                           const std::vector<wire::ServerEntry>& members);

// Whether the host may be one of the ensemble's, by what the manager answered at some time between the two.
// kInvalid: another version, another time.
Status check_newcomer(const wire::ConfigurationResult& manager, WallTime asked, WallTime answered);

// The files that the host's servers read beside the configuration: keys, and those of TLS. Each once.
std::vector<std::string> files_of_servers(const Host& host, const EnsembleConfig& config);

// What of the host's servers the file has to have: those with data elsewhere than at the usual place.
Host servers_to_list(const Host& host, const EnsembleConfig& config);

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_NEWCOMER_H
