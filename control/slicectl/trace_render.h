// How slicectl shows operations and who causes them: text for people, JSON for programs (docs/trace.md).
#ifndef SLICE_CONTROL_SLICECTL_TRACE_RENDER_H
#define SLICE_CONTROL_SLICECTL_TRACE_RENDER_H

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "control/slicectl/render.h"
#include "control/slicectl/trace_tree.h"

namespace slice::slicectl {

// Paths of files that are known; of others the fileID is shown.
using KnownPaths = std::map<std::uint64_t, std::string>;

double milliseconds(Duration time);
// A few lines: what was asked, each hop, and what took the most of it.
std::string render_operation(const TraceJoiner& known, const Hop& operation, const KnownPaths& paths);
nlohmann::ordered_json operation_json(const TraceJoiner& known, const Hop& operation,
                                      const KnownPaths& paths);

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_TRACE_RENDER_H
