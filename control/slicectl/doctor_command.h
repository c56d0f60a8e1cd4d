// `slicectl doctor`: whether this host is fit for its part in the ensemble (docs/health.md).
#ifndef SLICE_CONTROL_SLICECTL_DOCTOR_COMMAND_H
#define SLICE_CONTROL_SLICECTL_DOCTOR_COMMAND_H

#include "cli/command_line.h"
#include "control/slicectl/output.h"
#include "control/slicectl/queries.h"

namespace slice::slicectl {

class DoctorCommand {
 public:
  explicit DoctorCommand(const cli::Command& app);

  bool parsed() const { return doctor_.parsed(); }
  // The exit code: 3 where something is wrong.
  Task<int> run(const Seams& seams, const Output& output);

  // What there is to say where the configuration cannot be used.
  static std::string refused(const Error& error, Format format);
  static constexpr int kFound = 3;

 private:
  cli::Command doctor_;
};

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_DOCTOR_COMMAND_H
