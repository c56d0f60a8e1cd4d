#include "control/slicectl/trace_render.h"

#include <array>

#include "control/slicectl/render_parts.h"
#include "wire/mount3.h"
#include "wire/nfs3.h"

namespace slice::slicectl {
namespace {

std::string ms_text(Duration time) {
  const double ms = milliseconds(time);
  return ms < 10 ? fmt::format("{:.2f} ms", ms) : fmt::format("{:.0f} ms", ms);
}

std::string clock_text(WallTime time) {
  const std::int64_t ms = time.ns / 1'000'000, s = ms / 1000;
  return fmt::format("{:02}:{:02}:{:02}.{:03}Z", s / 3600 % 24, s / 60 % 60, s % 60, ms % 1000);
}

std::string_view step_name(TraceStep::Kind kind) {
  constexpr std::array<std::string_view, 6> kNames{"read", "write", "sync", "call", "held", "lock"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view stable_name(std::uint32_t stable) {
  constexpr std::array<std::string_view, 3> kNames{"UNSTABLE", "DATA_SYNC", "FILE_SYNC"};
  return stable < kNames.size() ? kNames[stable] : "?";
}

bool has_range(const wire::TraceRecord& record) {
  const auto procedure = static_cast<nfs3::Procedure>(record.procedure);
  return record.program == nfs3::kProgram &&
         (procedure == nfs3::Procedure::kRead || procedure == nfs3::Procedure::kWrite ||
          procedure == nfs3::Procedure::kCommit);
}
bool is_write(const wire::TraceRecord& record) {
  return record.program == nfs3::kProgram &&
         record.procedure == static_cast<std::uint32_t>(nfs3::Procedure::kWrite);
}

bool is_mnt(const wire::TraceRecord& record) {
  return record.program == mount3::kProgram &&
         record.procedure == static_cast<std::uint32_t>(mount3::Procedure::kMnt);
}
bool is_refused(const wire::TraceRecord& record) {
  return (record.program == nfs3::kProgram || is_mnt(record)) && record.status != 0;
}

// What a client chose, which is to do nothing to a terminal.
std::string quoted_path(const std::string& path) {
  return Json(path).dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::string file_text(FileId file, const KnownPaths& paths) {
  auto known = paths.find(file.value);
  return known != paths.end() ? known->second : fmt::format("{:#x}", file.value);
}

class Renderer {
 public:
  explicit Renderer(const TraceJoiner& known) : known_(known) {}

  std::string name_of(std::uint32_t server) const {
    const TracedServer* found = known_.server(server);
    return found != nullptr ? found->name : fmt::format("server {}", server);
  }
  std::string name_of(const TraceStep& step) const {
    const rpc::Endpoint at{step.address, step.port};
    const TracedServer* found = known_.server_at(at);
    return found != nullptr ? found->name : rpc::to_string(at);
  }
  std::string data_of(std::uint32_t server) const {
    const TracedServer* found = known_.server(server);
    return found != nullptr && !found->data.empty() ? found->data : "memory";
  }
  // A step that is no call.
  std::string wait_text(std::uint32_t server, const TraceStep& step) const {
    if (step.kind == TraceStep::Kind::kHeld) return "held: its site is being moved";
    if (step.kind == TraceStep::Kind::kLock) return "another operation on the same file or range";
    return fmt::format("{} of {} in {}", step_name(step.kind), step.what, data_of(server));
  }

  std::string most(const MostOfIt& most) const {
    const std::string who = name_of(most.server);
    switch (most.kind) {
      case MostOfIt::Kind::kItself:
        return who + " itself";
      case MostOfIt::Kind::kWait:
        return fmt::format("{}, {}", who, wait_text(most.server, most.step));
      case MostOfIt::Kind::kWay:
        return fmt::format("the way from {} to {} and back, and waiting there", who, name_of(most.step));
      case MostOfIt::Kind::kUnknown:
        break;
    }
    return fmt::format("{} waiting for {}, which says nothing of it", who, name_of(most.step));
  }

  void hop(std::string& text, const Hop& hop, std::size_t indent, Duration after, unsigned sends) const {
    const wire::TraceRecord& record = hop.record;
    text += fmt::format("{:{}}{} {}: {}, itself {}", "", indent, name_of(hop.server),
                        wire::operation_name(record.program, record.procedure), ms_text(record.took),
                        ms_text(hop.itself()));
    if (record.waited > std::chrono::microseconds(100))
      text += fmt::format(", {} of it queued", ms_text(record.waited));
    if (after > Duration(0)) text += fmt::format(", from {} on", ms_text(after));
    if (sends > 1) text += fmt::format(", sent {} times", sends);
    if (!record.answered || is_refused(record)) text += fmt::format(", {}", wire::outcome_name(record));
    text += "\n";
    for (const Hop::Step& each : hop.steps) step(text, hop, each, indent + 2);
    if (record.steps_left_off > 0)
      text += fmt::format("{:{}}and {} shorter steps\n", "", indent + 2, record.steps_left_off);
  }

 private:
  void step(std::string& text, const Hop& hop, const Hop::Step& each, std::size_t indent) const {
    if (each.there != nullptr) return this->hop(text, *each.there, indent, each.step.began, each.step.sends);
    const bool call = each.step.kind == TraceStep::Kind::kCall;
    text += fmt::format("{:{}}{}: {}, from {} on\n", "", indent,
                        call ? fmt::format("{} {}", name_of(each.step),
                                           wire::operation_name(each.step.program, each.step.procedure))
                             : wait_text(hop.server, each.step),
                        ms_text(each.step.took), ms_text(each.step.began));
  }

  const TraceJoiner& known_;
};

Json hop_json(const Renderer& names, const Hop& hop) {
  const wire::TraceRecord& record = hop.record;
  Json json{{"server", names.name_of(hop.server)},
            {"operation", wire::operation_name(record.program, record.procedure)},
            {"milliseconds", milliseconds(record.took)},
            {"itself_milliseconds", milliseconds(hop.itself())},
            {"queued_milliseconds", milliseconds(record.waited)},
            {"outcome", wire::outcome_name(record)},
            {"steps", Json::array()},
            {"steps_left_off", record.steps_left_off}};
  for (const Hop::Step& each : hop.steps) {
    Json step{{"kind", step_name(each.step.kind)},
              {"from_milliseconds", milliseconds(each.step.began)},
              {"milliseconds", milliseconds(each.step.took)}};
    if (each.step.kind == TraceStep::Kind::kCall) {
      step["server"] = names.name_of(each.step);
      step["operation"] = wire::operation_name(each.step.program, each.step.procedure);
      if (each.there != nullptr) step["there"] = hop_json(names, *each.there);
    } else if (each.step.kind < TraceStep::Kind::kCall) {
      step["file"] = each.step.what;
      step["data"] = names.data_of(hop.server);
    }
    json["steps"].push_back(std::move(step));
  }
  return json;
}

std::string_view most_name(MostOfIt::Kind kind) {
  constexpr std::array<std::string_view, 4> kNames{"itself", "wait", "way", "unknown"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace

double milliseconds(Duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

std::string render_operation(const TraceJoiner& known, const Hop& operation, const KnownPaths& paths) {
  const Renderer names(known);
  const wire::TraceRecord& record = operation.record;
  std::string text = fmt::format("{} {} {} {} client={} xid={:#x}", clock_text(record.began),
                                 wire::operation_name(record.program, record.procedure), ms_text(record.took),
                                 wire::outcome_name(record), rpc::to_string(record.client), record.xid.value);
  if (record.file != FileId{}) text += " file=" + file_text(record.file, paths);
  if (!record.path.empty()) text += " path=" + quoted_path(record.path);
  if (has_range(record)) text += fmt::format(" offset={} count={}", record.offset, record.count);
  if (is_write(record)) text += fmt::format(" {}", stable_name(record.stable));
  text += "\n";
  if (record.sender != wire::kNoSender)
    text += fmt::format("  {} passed it on, and says nothing of it\n", names.name_of(record.sender));
  names.hop(text, operation, 2, Duration(0), 1);
  const MostOfIt most = most_of_it(operation);
  return text + fmt::format("  most of it: {}: {} of {}\n", names.most(most), ms_text(most.took),
                            ms_text(record.took));
}

Json operation_json(const TraceJoiner& known, const Hop& operation, const KnownPaths& paths) {
  const Renderer names(known);
  const wire::TraceRecord& record = operation.record;
  Json json{
      {"began", fmt::format("{}.{:09}", record.began.ns / 1'000'000'000, record.began.ns % 1'000'000'000)},
      {"operation", wire::operation_name(record.program, record.procedure)},
      {"milliseconds", milliseconds(record.took)},
      {"outcome", wire::outcome_name(record)},
      {"client", rpc::to_string(record.client)},
      {"xid", record.xid.value}};
  if (record.file != FileId{}) json["fileid"] = fmt::format("{:#x}", record.file.value);
  if (auto path = paths.find(record.file.value); path != paths.end()) json["path"] = path->second;
  if (!record.path.empty()) json["path"] = record.path;
  if (has_range(record)) {
    json["offset"] = record.offset;
    json["count"] = record.count;
  }
  if (is_write(record)) json["stable"] = stable_name(record.stable);
  const MostOfIt most = most_of_it(operation);
  json["most"] = {{"kind", most_name(most.kind)},
                  {"server", names.name_of(most.server)},
                  {"milliseconds", milliseconds(most.took)},
                  {"text", names.most(most)}};
  if (most.kind == MostOfIt::Kind::kWait) {
    json["most"]["step"] = step_name(most.step.kind);
    json["most"]["data"] = names.data_of(most.server);
  }
  json["hop"] = hop_json(names, operation);
  return json;
}

}  // namespace slice::slicectl
