#include "control/slicectl/doctor_command.h"

#include "control/slicectl/doctor.h"

namespace slice::slicectl {

DoctorCommand::DoctorCommand(const cli::Command& app)
    : doctor_(app.add_subcommand(
          "doctor", "whether this host is fit for its part: keys, clock, ports, disks, kernel, the others")) {
  doctor_.footer("Exit codes: 0 all is as it should be; 3 something is not.");
}

std::string DoctorCommand::refused(const Error& error, Format format) {
  return render_checks(diagnose(error), format);
}

Task<int> DoctorCommand::run(const Seams& seams, const Output& output) {
  const Heard heard = co_await hear(seams);
  const std::vector<Check> checks = diagnose(seams.config, look_at_host(seams.config), heard);
  output.print(render_checks(checks, output.format));
  co_return all_good(checks) ? 0 : kFound;
}

}  // namespace slice::slicectl
