#include "coordinator/sessions.h"

#include <algorithm>

#include "service/internal_call.h"
#include "wire/object.h"

namespace slice::coordinator {
namespace {

constexpr Duration kRecallTimeout = std::chrono::seconds(1);  // of one try
constexpr Duration kPause = std::chrono::milliseconds(50);

}  // namespace

Sessions::Sessions(service::ServiceContext& context)
    : context_(context),
      started_(context.loop.now()),
      recalls_(context.metrics.counter("coordinator_layout_recalls_total",
                                       "changes of layouts that all storage nodes were told of")),
      ended_(context.metrics.counter("coordinator_sessions_ended_total",
                                     "sessions of storage nodes that were silent when told")) {}

Sessions::Session& Sessions::of(std::uint32_t server) {
  return sessions_.try_emplace(server, Session{.until = started_ + kLife}).first->second;
}

wire::SessionResult Sessions::renew(const wire::SessionArgs& args) {
  const routing::RoutingTables& tables = *context_.tables.get();
  std::erase_if(sessions_, [&](const auto& each) {
    return tables.removed(each.first) && each.second.recalls == 0 && !live(each.first);
  });
  Session& session = of(args.server);
  if (tables.lost(args.server)) return {.status = nfs3::Status::kStale};  // it ends, and no other begins
  if (session.recalls > 0) return {.status = nfs3::Status::kJukebox};
  MonoTime now = context_.loop.now();
  bool lasts = session.number != 0 && session.number == args.session && now < session.until;
  if (!lasts) session.number = context_.random() | 1;
  session.left = Left::kNo;
  session.until = now + kLife;
  session.free_bytes = args.free_bytes;
  return {.session = session.number,
          .milliseconds = static_cast<std::uint32_t>(
              std::chrono::duration_cast<std::chrono::milliseconds>(kLife).count())};
}

void Sessions::end(const wire::EndSessionArgs& args) {
  auto found = sessions_.find(args.server);
  if (found == sessions_.end() || args.session == 0 || found->second.number != args.session) return;
  Session& session = found->second;
  if (session.left == Left::kNo) log_info("storage node {} ends its session", args.server);
  session.left = args.durable ? Left::kDurable : Left::kYes;
  session.until = std::min(session.until, context_.loop.now());
}

bool Sessions::left_durable(std::uint32_t server) const {
  auto found = sessions_.find(server);
  return found != sessions_.end() && found->second.left == Left::kDurable;
}

bool Sessions::live(std::uint32_t server) const {
  auto found = sessions_.find(server);
  MonoTime until = found == sessions_.end() ? started_ + kLife : found->second.until;
  return context_.loop.now() < until;
}

std::vector<Room> Sessions::rooms() const {
  std::vector<Room> rooms;
  for (const auto& [server, session] : sessions_) {
    const bool counts = session.number != 0 && live(server) && !context_.tables.get()->gone(server);
    if (counts) rooms.push_back({server, session.free_bytes});
  }
  return rooms;
}

Task<void> Sessions::settled() {
  for (;;) {
    bool all_new = true;
    for (const wire::ServerEntry* node : context_.tables.get()->servers(wire::Role::kStorage)) {
      if (context_.tables.get()->lost(node->server) && !live(node->server)) continue;
      auto found = sessions_.find(node->server);
      all_new = all_new && found != sessions_.end() && found->second.number != 0;
    }
    if (all_new || context_.loop.now() >= started_ + kLife) co_return;
    co_await context_.loop.sleep(kPause);
  }
}

Task<void> Sessions::recall(wire::RecallArgs args) {
  recalls_.add();
  args.coordinator = context_.self.index;
  std::vector<Task<bool>> tasks;
  for (const wire::ServerEntry* node : context_.tables.get()->servers(wire::Role::kStorage)) {
    if (live(node->server)) tasks.push_back(recall_from(node->server, args));
  }
  co_await all(std::move(tasks));
}

// True: told. False: its session has ended first.
Task<bool> Sessions::recall_from(std::uint32_t server, wire::RecallArgs args) {
  ++of(server).recalls;
  bool told = false;
  while (!told && live(server)) {
    const wire::ServerEntry* entry = context_.tables.get()->server(server);
    auto result = co_await service::internal_call<wire::ObjectStatusResult>(
        context_.channel, entry->endpoint, wire::kObjectProgram, wire::ObjectProcedure::kRecall, args,
        std::min<Duration>(kRecallTimeout, of(server).until - context_.loop.now()), kPause);
    told = result && result->status == nfs3::Status::kOk;
    if (!told) co_await context_.loop.sleep(kPause);
  }
  Session& session = of(server);
  --session.recalls;
  if (!told && session.left == Left::kNo) {
    session.number = 0;
    ended_.add();
    if (log_.allow()) log_warning("the session of storage node {} has ended: it does not answer", server);
  }
  co_return told;
}

}  // namespace slice::coordinator
