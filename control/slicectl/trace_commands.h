// The commands of slicectl that show what operations do: `trace` and `top` (docs/trace.md).
#ifndef SLICE_CONTROL_SLICECTL_TRACE_COMMANDS_H
#define SLICE_CONTROL_SLICECTL_TRACE_COMMANDS_H

#include <string>
#include <string_view>

#include "cli/command_line.h"
#include "control/slicectl/output.h"
#include "control/slicectl/queries.h"
#include "wire/trace.h"

namespace slice::slicectl {

// "50ms", "200us", "10s". kInvalid: what is no time.
Result<Duration> parse_time(std::string_view text);
// Of NFS or MOUNT, in any case of letters. kInvalid, with what was perhaps meant.
Result<wire::TraceOperation> parse_operation(std::string_view name);

class TraceCommands {
 public:
  explicit TraceCommands(const cli::Command& app);

  bool parsed() const;
  // Runs the command that was parsed; the exit code.
  Task<int> run(const Seams& seams, const Output& output);

 private:
  // All but the file.
  Result<wire::TraceFilter> filter() const;

  cli::Command trace_;
  std::string client_, op_, slower_, file_, server_, for_ = "10s";
};

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_TRACE_COMMANDS_H
