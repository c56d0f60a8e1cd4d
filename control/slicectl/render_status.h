// How `slicectl status` shows the ensemble: its health, a summary, and every process.
#ifndef SLICE_CONTROL_SLICECTL_RENDER_STATUS_H
#define SLICE_CONTROL_SLICECTL_RENDER_STATUS_H

#include <string>
#include <vector>

#include "control/slicectl/health.h"
#include "control/slicectl/render.h"

namespace slice::slicectl {

std::string render_status(const EnsembleConfig& config, const Heard& heard, const Health& health,
                          Format format);

// "SERVER_DOWN store1: what is wrong; since when. Cure: ...", one line without its break.
std::string finding_text(const Finding& finding, WallTime now);

// What is otherwise than `before` (null: nothing is known of it), a line each, with the time: the level where
// that has changed, findings that are new, and those that are over. JSON: one object on one line where
// anything is. Empty: nothing is. A finding is the same as long as name and server are.
std::string render_changes(const Health* before, const Health& now, WallTime when, Format format);

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_RENDER_STATUS_H
