#include "control/slicectl/backing_command.h"

#include <utility>

#include "control/slicectl/render.h"

namespace slice::slicectl {

BackingCommand::BackingCommand(const cli::Command& app)
    : backing_(app.add_subcommand(
          "backing",
          "servers whose data lies on storage servers: on which, as how many copies, and who stands by")),
      adopt_(backing_.add_subcommand(
          "adopt",
          "says which storage servers have all that a server keeps there, where the manager's state was lost "
          "and it cannot find out (docs/backing.md)")) {
  adopt_.add_option("name", server_, "whose set").required();
  adopt_
      .add_option("--members", members_, "storage servers, with commas: what others have counts for nothing")
      .delimiter(',')
      .required();
}

Task<int> BackingCommand::show(const Seams& seams, const Output& output) {
  auto tables = co_await ask_tables(seams);
  if (!tables) co_return output.say(tables.error());
  auto sets = co_await ask_backing_sets(seams);
  if (!sets) co_return output.say(sets.error());
  auto standbys = co_await ask_standbys(seams);
  if (!standbys) co_return output.say(standbys.error());
  co_return output.print(render_backing(**tables, *sets, *standbys, output.format));
}

Task<int> BackingCommand::adopt(const Seams& seams, const Output& output) {
  auto tables = co_await ask_tables(seams);
  if (!tables) co_return output.say(tables.error());
  const auto number_of = [&](const std::string& name) -> Result<std::uint32_t> {
    const wire::ServerEntry* known = wire::find_member((*tables)->wire(), name);
    if (known == nullptr) return fail(Errc::kNotFound, "{}: there is no such server", name);
    return known->server;
  };
  auto server = number_of(server_);
  if (!server) co_return output.say(server.error());
  wire::BackingAdoptArgs args{.server = *server, .members = {}};
  for (const std::string& each : members_) {
    auto member = number_of(each);
    if (!member) co_return output.say(member.error());
    args.members.push_back(*member);
  }
  if (auto adopted = co_await ask_to_adopt(seams, std::move(args)); !adopted)
    co_return output.say(adopted.error());
  co_return co_await show(seams, output);
}

Task<int> BackingCommand::run(const Seams& seams, const Output& output) {
  return adopt_.parsed() ? adopt(seams, output) : show(seams, output);
}

}  // namespace slice::slicectl
