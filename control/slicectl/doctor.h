// Judges whether a host is fit for its part in the ensemble, by what the host says of itself and what the
// others answer it: `slicectl doctor` (docs/health.md). Pure: asks nobody.
#ifndef SLICE_CONTROL_SLICECTL_DOCTOR_H
#define SLICE_CONTROL_SLICECTL_DOCTOR_H

#include <string>
#include <string_view>
#include <vector>

#include "control/slicectl/health.h"
#include "control/slicectl/heard.h"
#include "control/slicectl/host_facts.h"
#include "control/slicectl/render.h"

namespace slice::slicectl {

struct Check {
  HealthLevel level = HealthLevel::kOk;
  std::string name;  // stable: "key-file"; docs/health.md has them
  std::string what;  // was found
  std::string cure;  // where it is not as it should be
};

std::vector<Check> diagnose(const EnsembleConfig& config, const HostFacts& host, const Heard& heard);
// Of a configuration that cannot be used: then there is nothing else to be looked at.
std::vector<Check> diagnose(const Error& refusal);

// One line a check; JSON: {"checks": [{name, level, what, cure}], "warnings", "errors"}.
std::string render_checks(const std::vector<Check>& checks, Format format);
// Whether none is otherwise than it should be.
bool all_good(const std::vector<Check>& checks);

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_DOCTOR_H
