// The manager's ensemble.toml, given to a host that is to become one of the ensemble's.
#ifndef SLICE_CONTROL_MANAGER_CONFIGURATION_H
#define SLICE_CONTROL_MANAGER_CONFIGURATION_H

#include "common/config.h"
#include "common/loop.h"
#include "wire/configuration.h"

namespace slice::manager {

// The file as it is now, which may have been edited since it was read. Refused, with a log line, where no
// process would start with it. Blocks for the file.
wire::ConfigurationResult give_configuration(const EnsembleConfig& config, WallTime now);

}  // namespace slice::manager

#endif  // SLICE_CONTROL_MANAGER_CONFIGURATION_H
