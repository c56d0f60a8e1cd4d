// pinned_tables(): what the pinned maps of a run before say of which server has which site, for a proxy that
// starts while no manager has tables. Hints: anybody may have changed entries by hand.
#ifndef SLICE_CONTROL_XDP_PINNED_TABLES_H
#define SLICE_CONTROL_XDP_PINNED_TABLES_H

#include <optional>

#include "common/config.h"
#include "wire/manager.h"

namespace slice::proxy {

// Nothing where there are none, or they are of another volume or layout, or a site has no server of its role.
// Servers are those of the configuration. Blocks for some milliseconds.
std::optional<wire::Tables> pinned_tables(const EnsembleConfig& config);

}  // namespace slice::proxy

#endif  // SLICE_CONTROL_XDP_PINNED_TABLES_H
