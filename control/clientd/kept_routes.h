// The routes that a proxy on a client's host was told last, in a file beside its port: with them it starts
// while nobody answers who knows better. Routes are hints: what goes by old ones is passed on by servers.
#ifndef SLICE_CONTROL_CLIENTD_KEPT_ROUTES_H
#define SLICE_CONTROL_CLIENTD_KEPT_ROUTES_H

#include <filesystem>

#include "common/result.h"
#include "wire/routes.h"

namespace slice::clientd {

// Replaces what is kept, whole or not at all. kIo. Blocks.
Status keep_routes(const std::filesystem::path& file, const wire::Routes& routes);
// kNotFound; kCorrupt: it is no such file; kIo. Blocks.
Result<wire::Routes> kept_routes(const std::filesystem::path& file);

}  // namespace slice::clientd

#endif  // SLICE_CONTROL_CLIENTD_KEPT_ROUTES_H
