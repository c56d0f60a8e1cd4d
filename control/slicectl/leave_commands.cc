#include "control/slicectl/leave_commands.h"

#include <algorithm>
#include <utility>

namespace slice::slicectl {
namespace {

constexpr Duration kHeardPatience = std::chrono::seconds(3);  // several heartbeats

bool concerns(const wire::MoveState& move, std::uint32_t server) {
  return going_on(move) && (move.move.from == server || move.move.to == server);
}

}  // namespace

LeaveCommands::LeaveCommands(const cli::Command& servers, FilesOnlyOn files_only_on)
    : files_only_on_(std::move(files_only_on)),
      drain_(servers.add_subcommand("drain", "moves all sites of one away, and has it get no others")),
      remove_(servers.add_subcommand(
          "remove", "one that has no sites is no member any more: its process stops, for good")) {
  for (const cli::Command& command : {drain_, remove_})
    command.add_option("name", server_, "which").required();
  drain_.add_flag("--undo", undo_, "it may get sites again; none is moved");
  remove_.add_flag(
      "--lost", lost_,
      "a storage server whose data is gone for good: what had copies there gets others, and its sites "
      "go to other servers. Refused while files have bytes there and nowhere else. There is no way "
      "back: what it has, should it come back, counts for nothing");
}

Task<int> LeaveCommands::run(const Seams& seams, const Output& output) {
  if (drain_.parsed()) return drain(seams, output);
  return lost_ ? give_up(seams, output) : remove(seams, output);
}

Task<int> LeaveCommands::drain(const Seams& seams, const Output& output) {
  auto changed = co_await ask_for(seams, undo_ ? wire::ServerChange::kUse : wire::ServerChange::kDrain);
  if (!changed) co_return output.say(changed.error());
  if (undo_) co_return output.print(render_change(*changed, output.format));
  if (static_cast<std::size_t>(changed->entry.role) >= wire::kSiteClasses)
    co_return output.print(render_begun({}, output.format));
  auto known = co_await ask_known(seams);
  if (!known) co_return output.say(known.error());
  auto plan = plan_without(*known, changed->entry);
  if (!plan) co_return output.say(plan.error());
  if (Status begun = co_await carry_out(seams, *plan); !begun) co_return output.say(begun.error());
  co_return output.print(render_plan(*known->tables, *plan, output.format));
}

Task<int> LeaveCommands::remove(const Seams& seams, const Output& output) {
  auto changed = co_await ask_for(seams, wire::ServerChange::kRemove);
  if (!changed) co_return output.say(changed.error());
  co_return output.print(render_change(*changed, output.format));
}

// What has bytes there alone is looked for before there is no way back.
Task<int> LeaveCommands::give_up(const Seams& seams, const Output& output) {
  auto tables = co_await ask_tables(seams);
  if (!tables) co_return output.say(tables.error());
  const wire::ServerEntry* known = wire::find_member((*tables)->wire(), server_);
  if (known != nullptr && known->role == wire::Role::kStorage && known->lost.value == 0) {
    if (const int code = files_only_on_(server_); code != 0) co_return code;
  }
  auto changed = co_await ask_for(seams, wire::ServerChange::kLose);
  if (!changed) co_return output.say(changed.error());
  if (changed->entry.role != wire::Role::kRemoved) {
    output.report(fmt::format("{} is lost: its sites go to other servers", server_));
    if (const int code = co_await give_sites_to_others(seams, output); code != 0) co_return code;
  }
  co_return co_await remove_when_empty(seams, output);
}

Task<int> LeaveCommands::give_sites_to_others(const Seams& seams, const Output& output) {
  bool looked = false;
  while (true) {
    auto known = co_await ask_known(seams);
    if (!known) co_return output.say(known.error());
    const wire::ServerEntry* server = wire::find_member(known->tables->wire(), server_);
    if (server == nullptr) co_return 0;
    const auto& moves = known->going.moves;
    const bool some_go_on = std::any_of(moves.begin(), moves.end(), [&](const wire::MoveState& each) {
      return concerns(each, server->server);
    });
    if (!some_go_on && wire::sites_of(known->tables->wire(), server_).empty()) co_return 0;
    if (!some_go_on) {
      // A move that ended just before it was lost may have brought it sites.
      if (!std::exchange(looked, true)) {
        if (const int code = files_only_on_(server_); code != 0) co_return code;
      }
      auto plan = plan_without(*known, *server);
      if (!plan) co_return output.say(plan.error());
      if (Status begun = co_await carry_out(seams, *plan); !begun) co_return output.say(begun.error());
    }
    co_await seams.loop.sleep(kLookPause);
  }
}

// So that a status that is asked for next is of after it, and not of what the last heartbeats said.
Task<void> LeaveCommands::until_heard(const Seams& seams, Generation generation) {
  const MonoTime end = seams.loop.now() + kHeardPatience;
  while (seams.loop.now() < end) {
    auto heard = co_await ask_members(seams);
    const bool all =
        heard && std::all_of(heard->members.begin(), heard->members.end(), [&](const wire::Member& each) {
          return !each.alive || each.last.generation >= generation;
        });
    if (all) co_return;
    co_await seams.loop.sleep(kLookPause);
  }
}

Task<int> LeaveCommands::remove_when_empty(const Seams& seams, const Output& output) {
  std::string reported;
  while (true) {
    auto changed = co_await ask_for(seams, wire::ServerChange::kRemove);
    if (changed) {
      co_await until_heard(seams, changed->generation);
      co_return output.print(render_change(*changed, output.format));
    }
    if (changed.error().code != Errc::kInvalid) co_return output.say(changed.error());
    if (std::exchange(reported, changed.error().message) != changed.error().message)
      output.report("waiting: " + reported);
    co_await seams.loop.sleep(kLookPause);
  }
}

}  // namespace slice::slicectl
