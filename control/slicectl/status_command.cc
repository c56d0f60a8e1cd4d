#include "control/slicectl/status_command.h"

#include <cstdio>
#include <optional>
#include <utility>

#include "control/slicectl/render_status.h"

namespace slice::slicectl {
namespace {

constexpr int kUnwell = 3;
constexpr Duration kStatusPause = std::chrono::seconds(2);
// Home, and what was there is gone.
constexpr const char* kClearScreen = "\x1b[H\x1b[J";

}  // namespace

StatusCommand::StatusCommand(const cli::Command& app)
    : status_(app.add_subcommand(
          "status", "the health of the ensemble, what is wrong and the cure, and how every process is")) {
  status_.add_flag("--watch", watch_,
                   "goes on: on a terminal the whole picture anew, else a line for each change of health");
  status_.footer("Exit codes: 0 HEALTH_OK; 3 HEALTH_WARN or HEALTH_ERR.");
}

Task<int> StatusCommand::run(const Seams& seams, const Output& output) {
  if (watch_) co_return co_await watch(seams, output);
  const Heard heard = co_await hear(seams);
  const Health health = judge(seams.config, heard);
  output.print(render_status(seams.config, heard, health, output.format));
  co_return health.level() == HealthLevel::kOk ? 0 : kUnwell;
}

Task<int> StatusCommand::watch(const Seams& seams, const Output& output) {
  std::optional<Health> before;
  while (true) {
    const Heard heard = co_await hear(seams);
    Health health = judge(seams.config, heard);
    output.print(output.terminal
                     ? kClearScreen + render_status(seams.config, heard, health, output.format)
                     : render_changes(before ? &*before : nullptr, health, heard.now, output.format));
    std::fflush(stdout);
    before = std::move(health);
    co_await seams.loop.sleep(kStatusPause);
  }
}

}  // namespace slice::slicectl
