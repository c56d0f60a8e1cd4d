#include "control/slicectl/top_commands.h"

#include <algorithm>
#include <utility>

#include "control/slicectl/trace_commands.h"
#include "service/internal_call.h"

namespace slice::slicectl {
namespace {

constexpr int kOfSomeOnly = 3;
constexpr Duration kLongestPause = std::chrono::seconds(5);
constexpr std::uint32_t kTopLeaseMs = 8000;  // beyond the pause, as long as answers may take

struct Sampled {
  MonoTime at;
  TopSample sample;
  std::vector<std::string> silent;
};

Task<Result<wire::TopResult>> ask_top(const Seams& seams, const ServerConfig& server) {
  return service::internal_call<wire::TopResult>(seams.channel, {server.address, server.port},
                                                 wire::kAdminProgram, wire::AdminProcedure::kTop,
                                                 wire::TopArgs{kTopLeaseMs}, seams.timeout);
}

// Of all that serve NFS; a proxy has seen only what came through its user space, and servers have that too.
Task<Sampled> sample(const Seams& seams) {
  std::vector<const ServerConfig*> servers;
  std::vector<Task<Result<wire::TopResult>>> questions;
  for (const ServerConfig& server : seams.config.servers) {
    if (static_cast<std::uint32_t>(server.role) >= wire::kSiteClasses) continue;
    servers.push_back(&server);
    questions.push_back(ask_top(seams, server));
  }
  auto answers = co_await all(std::move(questions));
  Sampled sampled{.at = seams.loop.now(), .sample = {}, .silent = {}};
  for (std::size_t i = 0; i < servers.size(); ++i) {
    if (answers[i]) {
      sampled.sample.emplace(servers[i]->name, std::move(*answers[i]));
    } else {
      sampled.silent.push_back(fmt::format("{}: {}", servers[i]->name, answers[i].error().message));
    }
  }
  co_return sampled;
}

}  // namespace

TopCommands::TopCommands(const cli::Command& app)
    : top_(app.add_subcommand("top",
                              "who causes the load: rates, bytes, mean and slowest time (docs/trace.md)")) {
  top_.add_flag("--clients", tables_.clients, "by client");
  top_.add_flag("--servers", tables_.servers, "by server");
  top_.add_flag("--ops", tables_.operations, "by kind of operation");
  top_.add_flag("--files", tables_.files, "by file or directory");
  top_.add_flag("--watch", watch_, "again and again");
  top_.add_option("--rows", rows_, "of each table").in_range(1, 256).capture_default();
  top_.add_option("--for", for_, "how long to count, at most 5s").capture_default();
}

Task<int> TopCommands::run(const Seams& seams, const Output& output) {
  auto time = parse_time(for_);
  if (!time) co_return output.say(time.error());
  if (*time <= Duration(0) || *time > kLongestPause)
    co_return output.say({Errc::kInvalid, fmt::format("--for {}: from 1us to 5s", for_)});
  TopTables tables = tables_;
  if (!tables.clients && !tables.servers && !tables.operations && !tables.files)
    tables = {.servers = true, .operations = true, .clients = true, .files = true};
  Sampled last = co_await sample(seams);
  std::size_t lines = 0;
  while (true) {
    co_await seams.loop.sleep(*time);
    Sampled now = co_await sample(seams);
    const Loads loads = loads_between(last.sample, now.sample, now.at - last.at);
    const std::string text = render_top(loads, tables, rows_, now.silent, output.format);
    // Back to where the last picture began.
    const std::string back = output.terminal && lines > 0 ? fmt::format("\x1b[{}A\x1b[J", lines) : "";
    output.print(back + text);
    lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
    if (!watch_) {
      for (const std::string& line : now.silent) output.report(line);
      co_return now.sample.empty() ? 1 : now.silent.empty() ? 0 : kOfSomeOnly;
    }
    last = std::move(now);
  }
}

}  // namespace slice::slicectl
