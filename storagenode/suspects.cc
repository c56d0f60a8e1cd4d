#include "storagenode/suspects.h"

#include <iterator>

#include "common/log.h"
#include "service/internal_call.h"
#include "wire/object.h"

namespace slice::storagenode {
namespace {

constexpr Duration kRefused = std::chrono::seconds(1);  // nobody listens, for longer than a start takes

}  // namespace

Suspects::Waiting::Waiting(Suspects& suspects, std::uint32_t server, std::function<void()> give_up)
    : suspects_(suspects), server_(server) {
  std::list<Call>& calls = suspects_.calls_[server_];
  calls.push_back({suspects_.context_.loop.now(), std::move(give_up)});
  call_ = std::prev(calls.end());
  if (suspects_.watched_.insert(server_).second) spawn(suspects_.watch(server_, suspects_.stopped_));
}

Suspects::Waiting::~Waiting() {
  const auto found = suspects_.calls_.find(server_);
  found->second.erase(call_);
  if (found->second.empty()) suspects_.calls_.erase(found);
}

void Suspects::silent(std::uint32_t server) {
  if (!servers_.insert(server).second) return;
  log_warning("server {} is silent: it is not asked until it answers again", server);
  if (const auto found = calls_.find(server); found != calls_.end()) {
    for (const Call& each : found->second) context_.loop.post(each.give_up);
  }
  spawn(probe(server, stopped_));
}

bool Suspects::waits_since(std::uint32_t server, MonoTime then) const {
  const auto found = calls_.find(server);
  return found != calls_.end() && found->second.front().began <= then;
}

// One that the tables do not have any more is not asked by anybody else either.
Task<bool> Suspects::answers(std::uint32_t server, Duration timeout) {
  const wire::ServerEntry* entry = context_.tables.get()->server(server);
  if (entry == nullptr) co_return true;
  auto answer = co_await service::internal_call<service::NoResults>(
      context_.channel, entry->endpoint, wire::kObjectProgram, wire::ObjectProcedure::kNull,
      service::NoArguments{}, timeout, kRefused);
  co_return answer.has_value();
}

Task<void> Suspects::probe(std::uint32_t server, std::shared_ptr<bool> stopped) {
  for (bool again = false; !again;) {
    co_await context_.loop.sleep(kPause);
    if (*stopped) co_return;
    again = co_await answers(server, kProbeTimeout);
    if (*stopped) co_return;
  }
  servers_.erase(server);
  log_info("server {} is asked again", server);
}

// As long as there are calls.
Task<void> Suspects::watch(std::uint32_t server, std::shared_ptr<bool> stopped) {
  for (;;) {
    co_await context_.loop.sleep(kPause);
    if (*stopped) co_return;
    if (!calls_.contains(server) || has(server)) break;
    const MonoTime then = context_.loop.now() - kPause;
    if (!waits_since(server, then)) continue;
    const bool answered = co_await answers(server, kAnswers);
    if (*stopped) co_return;
    if (!answered && waits_since(server, then)) silent(server);
  }
  watched_.erase(server);
}

}  // namespace slice::storagenode
