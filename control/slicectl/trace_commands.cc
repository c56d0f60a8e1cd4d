#include "control/slicectl/trace_commands.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <memory>
#include <set>
#include <utility>

#include "common/did_you_mean.h"
#include "control/slicectl/render_parts.h"
#include "control/slicectl/trace_render.h"
#include "control/slicectl/trace_tree.h"
#include "service/internal_call.h"
#include "wire/mount3.h"
#include "wire/nfs3.h"

namespace slice::slicectl {
namespace {

using namespace std::chrono_literals;

constexpr Duration kAskPause = 200ms;
constexpr std::uint32_t kLeaseMs = 3000;
constexpr int kSomeSilent = 3;

// One run of `trace`: asks every server again and again, and joins what they say.
class Tracing {
 public:
  Tracing(const Seams& seams, wire::TraceFilter filter)
      : seams_(seams),
        filter_(filter),
        watch_(static_cast<std::uint64_t>(seams.loop.wall().ns)),
        joiner_(servers()) {
    for (const ServerConfig& server : seams.config.servers) {
      if (server.role != ServerRole::kRemoved) asked_.push_back({.server = &server});
    }
  }

  // Asks everybody once; `lease_ms` 0 ends it.
  Task<void> ask(std::uint32_t lease_ms) {
    std::vector<Task<bool>> questions;
    questions.reserve(asked_.size());
    for (Asked& each : asked_) questions.push_back(ask_one(each, lease_ms));
    co_await all(std::move(questions));
  }
  TraceJoiner& joiner() { return joiner_; }
  // "NAME: why", of each that does not say what it does.
  std::vector<std::string> silent() const {
    std::vector<std::string> lines;
    for (const Asked& each : asked_) {
      if (!each.trouble.empty()) lines.push_back(fmt::format("{}: {}", each.server->name, each.trouble));
    }
    return lines;
  }
  std::size_t servers_asked() const { return asked_.size(); }
  std::uint64_t lost() const {
    std::uint64_t lost = 0;
    for (const Asked& each : asked_) lost += each.lost;
    return lost;
  }

 private:
  struct Asked {
    const ServerConfig* server;
    std::uint64_t after = 0, lost = 0;
    std::string trouble = {};
  };

  std::vector<TracedServer> servers() const {
    std::vector<TracedServer> all;
    for (const ServerConfig& server : seams_.config.servers) {
      if (server.role == ServerRole::kRemoved) continue;
      all.push_back({.index = server.index, .name = server.name, .endpoint = {server.address, server.port}});
    }
    return all;
  }

  Task<bool> ask_one(Asked& asked, std::uint32_t lease_ms) {
    const wire::TraceArgs args{
        .watch = watch_, .after = asked.after, .lease_ms = lease_ms, .filter = filter_};
    auto result = co_await service::internal_call<wire::TraceResult>(
        seams_.channel, {asked.server->address, asked.server->port}, wire::kAdminProgram,
        wire::AdminProcedure::kTrace, args, seams_.timeout);
    if (!result || !result->refused.empty()) {
      asked.trouble = result ? result->refused : result.error().message;
      co_return false;
    }
    asked.trouble.clear();
    asked.lost = result->lost;
    joiner_.learn_data(asked.server->index, std::move(result->data));
    for (wire::TraceRecord& record : result->records) {
      asked.after = std::max(asked.after, record.number);
      joiner_.add(asked.server->index, std::move(record));
    }
    co_return true;
  }

  const Seams& seams_;
  const wire::TraceFilter filter_;
  const std::uint64_t watch_;
  std::vector<Asked> asked_;
  TraceJoiner joiner_;
};

}  // namespace

Result<Duration> parse_time(std::string_view text) {
  std::int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 3> kUnits{
      {{"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}}};
  auto known = std::find_if(kUnits.begin(), kUnits.end(), [&](const auto& u) { return u.first == unit; });
  constexpr std::int64_t kMost = 86'400;  // seconds
  if (error != std::errc{} || value < 0 || known == kUnits.end() ||
      value > kMost * 1'000'000'000 / known->second) {
    return fail(Errc::kInvalid, "'{}' is not a time such as 200us, 50ms or 10s", text);
  }
  return Duration(value * known->second);
}

Result<wire::TraceOperation> parse_operation(std::string_view name) {
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
  std::vector<std::string> known;
  for (const auto& [program, count] :
       {std::pair{nfs3::kProgram, nfs3::kProcedureCount}, {mount3::kProgram, mount3::kProcedureCount}}) {
    for (std::uint32_t i = 1; i < count; ++i) {
      known.push_back(wire::operation_name(program, i));
      if (known.back() == upper) return wire::TraceOperation{program, i};
    }
  }
  return fail(Errc::kInvalid, "'{}' is no operation of NFS or MOUNT{}", name, did_you_mean(upper, known));
}

TraceCommands::TraceCommands(const cli::Command& app)
    : trace_(app.add_subcommand(
          "trace",
          "shows operations of clients as they end, each hop, and where the time went (docs/trace.md)")) {
  trace_.add_option("--client", client_, "of this address alone");
  trace_.add_option("--op", op_, "of this kind alone, as WRITE or MNT");
  trace_.add_option("--slower", slower_, "which took so long at least, as 50ms");
  trace_.add_option("--file", file_, "of this file or directory alone: its absolute path");
  trace_.add_option("--server", server_, "in which this server or proxy had a part");
  trace_.add_option("--for", for_, "how long to watch").capture_default();
}

bool TraceCommands::parsed() const {
  return trace_.parsed();
}

Result<wire::TraceFilter> TraceCommands::filter() const {
  wire::TraceFilter filter;
  if (!client_.empty()) {
    auto address = parse_address(client_);
    if (!address) return fail(std::move(address).error());
    filter.client = *address;
  }
  if (!op_.empty()) {
    auto operation = parse_operation(op_);
    if (!operation) return fail(std::move(operation).error());
    filter.operation = *operation;
  }
  if (!slower_.empty()) {
    auto slower = parse_time(slower_);
    if (!slower) return fail(std::move(slower).error());
    filter.slower = *slower;
  }
  return filter;
}

Task<int> TraceCommands::run(const Seams& seams, const Output& output) {
  auto wanted = filter();
  if (!wanted) co_return output.say(wanted.error());
  auto time = parse_time(for_);
  if (!time) co_return output.say(time.error());
  KnownPaths paths;
  if (!file_.empty()) {
    auto tables = co_await ask_tables(seams);
    if (!tables) co_return output.say(tables.error());
    auto where = co_await ask_where(seams, *tables, file_);
    if (!where) co_return output.say(where.error());
    wanted->file = where->handle.fileid;
    paths[where->handle.fileid.value] = where->path;
  }
  const ServerConfig* only = server_.empty() ? nullptr : seams.config.find(server_);
  if (!server_.empty() && only == nullptr)
    co_return output.say({Errc::kNotFound, fmt::format("no server has the name '{}'", server_)});

  Tracing tracing(seams, *wanted);
  auto operations = Json::array();
  std::set<std::string> told;
  const MonoTime end = seams.loop.now() + *time;
  auto show = [&](bool last) {
    for (const auto& operation : tracing.joiner().round(last)) {
      if (only != nullptr && !has_part(*operation, only->index)) continue;
      if (output.format == Format::kJson) {
        operations.push_back(operation_json(tracing.joiner(), *operation, paths));
      } else {
        output.print(render_operation(tracing.joiner(), *operation, paths));
      }
    }
    for (const std::string& line : tracing.silent()) {
      if (told.insert(line).second) output.report(line);
    }
  };
  while (seams.loop.now() < end) {
    co_await tracing.ask(kLeaseMs);
    show(false);
    co_await seams.loop.sleep(std::min(kAskPause, std::max(end - seams.loop.now(), Duration(0))));
  }
  co_await tracing.ask(kLeaseMs);  // what has ended meanwhile
  co_await tracing.ask(0);
  show(true);
  const std::vector<std::string> silent = tracing.silent();
  if (output.format == Format::kJson) {
    output.print(dump({{"operations", operations}, {"lost", tracing.lost()}, {"silent", silent}}));
  } else if (tracing.lost() > 0) {
    output.report(fmt::format("{} operations are left off: more than could be kept; narrow what is watched",
                              tracing.lost()));
  }
  co_return silent.empty() ? 0 : silent.size() == tracing.servers_asked() ? 1 : kSomeSilent;
}

}  // namespace slice::slicectl
