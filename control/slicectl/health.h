// Judges the health of an ensemble by what was heard of it: `slicectl status` shows it, docs/health.md says
// of each finding what it means and what to do. Pure: no clock, no network.
#ifndef SLICE_CONTROL_SLICECTL_HEALTH_H
#define SLICE_CONTROL_SLICECTL_HEALTH_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/slicectl/heard.h"

namespace slice::slicectl {

// kError: somebody waits, or loses something, now. kWarning: it will come to that, or it costs something.
enum class HealthLevel { kOk, kWarning, kError };
// "HEALTH_OK", "HEALTH_WARN", "HEALTH_ERR"
std::string_view health_name(HealthLevel level);
// "ok", "warning", "error": of one thing.
std::string_view level_name(HealthLevel level);

// Less of a disk is free: nearly full, as the alert SliceDiskFills has it.
inline constexpr double kNearlyFull = 0.1;

struct Finding {
  HealthLevel level = HealthLevel::kWarning;
  std::string name;                      // stable: "SERVER_DOWN"; docs/health.md has a section of it
  std::string server;                    // that it is about; empty: the ensemble
  std::string what;                      // is wrong, and what of the volume that concerns
  std::optional<std::int64_t> since_ns;  // wall clock; none: not known
  std::string cure;                      // a command, or what of the docs to read
};

struct Health {
  std::vector<Finding> findings;  // the worst first, else in the order of the checks
  // The worst of them.
  HealthLevel level() const { return findings.empty() ? HealthLevel::kOk : findings.front().level; }
};

// Of the keys of ensemble.toml that have to be the same everywhere those that another process has otherwise:
// "[volume] threshold (1048576, here 65536)".
std::vector<std::string> differing_keys(const std::vector<wire::SharedKey>& here,
                                        const std::vector<wire::SharedKey>& there);
// Whether a clock that is so far from another is wrong also by what is not known of it exactly.
bool clock_is_off(std::int64_t ahead_ns, std::int64_t inexact_ns);

// `config`: this host's, with the ensemble's members.
Health judge(const EnsembleConfig& config, const Heard& heard);

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_HEALTH_H
