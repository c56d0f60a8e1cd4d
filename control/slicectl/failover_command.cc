#include "control/slicectl/failover_command.h"

#include <chrono>
#include <utility>

#include "control/slicectl/render.h"

namespace slice::slicectl {
namespace {

constexpr int kNotYet = 3;

}  // namespace

FailoverCommand::FailoverCommand(const cli::Command& app)
    : failover_(app.add_subcommand(
          "failover",
          "has a server served on another host, where a run of it stands by (docs/failover.md)")) {
  failover_.add_option("name", server_, "which server").required();
  failover_
      .add_option("--to", address_, "address of the host; default: of those the one with the fewest servers")
      .ipv4();
  failover_.add_option("--wait", wait_s_, "seconds to wait until it serves there; 0: does not")
      .in_range(0.0, 3600.0)
      .capture_default();
  failover_.footer(
      "Exit codes: 0 it serves there (--wait 0: the tables say so); 1 nothing is changed, or no answer; 3 "
      "the tables say so, and it does not serve yet.");
}

Task<std::optional<wire::HeartbeatArgs>> FailoverCommand::heard_of_it(const Seams& seams) {
  auto members = co_await ask_members(seams);
  if (!members) co_return std::nullopt;
  for (const wire::Member& each : members->members) {
    if (each.entry.name == server_ && each.alive) co_return each.last;
  }
  co_return std::nullopt;
}

// The process that is to let go says for a while that it serves.
Task<bool> FailoverCommand::until_it_serves(const Seams& seams, std::optional<wire::HeartbeatArgs> before) {
  const MonoTime end =
      seams.loop.now() + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(wait_s_));
  while (true) {
    const auto now = co_await heard_of_it(seams);
    const bool other = now && (!before || now->pid != before->pid || now->started_ns != before->started_ns);
    if (other && now->state.starts_with("serving")) co_return true;
    if (seams.loop.now() >= end) co_return false;
    co_await seams.loop.sleep(kLookPause);
  }
}

Task<int> FailoverCommand::run(const Seams& seams, const Output& output) {
  wire::FailoverArgs args{.name = server_};
  if (!address_.empty()) {
    auto address = parse_address(address_);
    if (!address) co_return output.say(address.error());
    args.address = *address;
  }
  const auto before = co_await heard_of_it(seams);
  auto done = co_await ask_failover(seams, std::move(args));
  if (!done) co_return output.say(done.error());
  bool serves = false;
  if (wait_s_ > 0) serves = co_await until_it_serves(seams, before);
  output.print(render_failover(server_, *done, serves, output.format));
  co_return wait_s_ == 0 || serves ? 0 : kNotYet;
}

}  // namespace slice::slicectl
