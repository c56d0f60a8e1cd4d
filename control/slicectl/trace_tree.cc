#include "control/slicectl/trace_tree.h"

#include <algorithm>
#include <utility>

namespace slice::slicectl {
namespace {

constexpr unsigned kMostDepth = 8;  // of servers that wait for one another

void look_for_more(const Hop& hop, MostOfIt& most) {
  auto take = [&most](MostOfIt found) {
    if (found.took > most.took) most = std::move(found);
  };
  take({.kind = MostOfIt::Kind::kItself, .server = hop.server, .took = hop.itself()});
  for (const Hop::Step& each : hop.steps) {
    if (each.step.kind != TraceStep::Kind::kCall) {
      take({.kind = MostOfIt::Kind::kWait, .server = hop.server, .step = each.step, .took = each.step.took});
    } else if (each.there == nullptr) {
      take({.kind = MostOfIt::Kind::kUnknown,
            .server = hop.server,
            .step = each.step,
            .took = each.step.took});
    } else {
      take({.kind = MostOfIt::Kind::kWay,
            .server = hop.server,
            .step = each.step,
            .took = each.step.took - each.there->record.took});
      look_for_more(*each.there, most);
    }
  }
}

}  // namespace

Duration Hop::itself() const {
  return outside_of(record.steps, record.took);
}

bool has_part(const Hop& hop, std::uint32_t server) {
  return hop.server == server || std::any_of(hop.steps.begin(), hop.steps.end(), [&](const Hop::Step& each) {
           return each.there != nullptr && has_part(*each.there, server);
         });
}

MostOfIt most_of_it(const Hop& operation) {
  MostOfIt most{.server = operation.server};
  look_for_more(operation, most);
  return most;
}

const TracedServer* TraceJoiner::server(std::uint32_t index) const {
  auto found =
      std::find_if(servers_.begin(), servers_.end(), [&](const auto& each) { return each.index == index; });
  return found == servers_.end() ? nullptr : &*found;
}

const TracedServer* TraceJoiner::server_at(rpc::Endpoint endpoint) const {
  auto found = std::find_if(servers_.begin(), servers_.end(),
                            [&](const auto& each) { return each.endpoint == endpoint; });
  return found == servers_.end() ? nullptr : &*found;
}

void TraceJoiner::learn_data(std::uint32_t index, std::string data) {
  const auto found =
      std::find_if(servers_.begin(), servers_.end(), [&](const auto& each) { return each.index == index; });
  if (found != servers_.end()) found->data = std::move(data);
}

void TraceJoiner::add(std::uint32_t server, wire::TraceRecord record) {
  if (waiting_.size() >= kMostRecords) waiting_.pop_front();
  waiting_.push_back({server, std::move(record)});
}

TraceJoiner::Waiting* TraceJoiner::called_by(const Waiting& caller, const TraceStep& step) {
  const TracedServer* to = server_at({step.address, step.port});
  if (to == nullptr) return nullptr;
  for (Waiting& each : waiting_) {
    const wire::TraceRecord& record = each.record;
    if (each.used || each.server != to->index || record.sender != caller.server ||
        record.carried != step.xid || record.program != step.program || record.procedure != step.procedure) {
      continue;
    }
    const bool passed_on = wire::of_client(record) && wire::of_client(caller.record);
    if (passed_on && (record.client != caller.record.client || record.xid != caller.record.xid)) continue;
    return &each;
  }
  return nullptr;
}

std::unique_ptr<Hop> TraceJoiner::build(Waiting& root, unsigned depth) {
  root.used = true;
  auto hop = std::make_unique<Hop>();
  hop->server = root.server;
  for (const TraceStep& step : root.record.steps) {
    Waiting* there =
        step.kind == TraceStep::Kind::kCall && depth < kMostDepth ? called_by(root, step) : nullptr;
    hop->steps.push_back({step, there != nullptr ? build(*there, depth + 1) : nullptr});
  }
  std::sort(hop->steps.begin(), hop->steps.end(),
            [](const Hop::Step& a, const Hop::Step& b) { return a.step.began < b.step.began; });
  hop->record = std::move(root.record);
  return hop;
}

std::vector<std::unique_ptr<Hop>> TraceJoiner::round(bool last) {
  std::vector<std::unique_ptr<Hop>> operations;
  // Those that nobody passed on first: they take theirs with them.
  for (const bool passed_on : {false, true}) {
    if (passed_on && !last) continue;
    for (Waiting& each : waiting_) {
      if (each.used || !wire::of_client(each.record)) continue;
      if ((each.record.sender != wire::kNoSender) != passed_on) continue;
      if (each.rounds == 0 && !last) continue;  // a server that was asked before may have more of it now
      operations.push_back(build(each, 0));
    }
  }
  std::erase_if(waiting_, [](const Waiting& each) { return each.used; });
  for (Waiting& each : waiting_) ++each.rounds;
  std::sort(operations.begin(), operations.end(),
            [](const auto& a, const auto& b) { return a->record.began.ns < b->record.began.ns; });
  return operations;
}

}  // namespace slice::slicectl
