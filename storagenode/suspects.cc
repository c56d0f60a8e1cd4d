#include "storagenode/suspects.h"

#include "common/log.h"
#include "service/internal_call.h"
#include "wire/object.h"

namespace slice::storagenode {

Suspects::Peer& Suspects::watched_peer(std::uint32_t server) {
  Peer& peer = peers_[server];
  peer.asked = context_.loop.now();
  if (!std::exchange(peer.watched, true)) spawn(watch(server, stopped_));
  return peer;
}

void Suspects::suspect(std::uint32_t server, std::string_view why) {
  Peer& peer = peers_[server];
  if (std::exchange(peer.silent, true)) return;
  log_warning("server {} {}: it is not asked until it answers again", server, why);
  for (const GiveUp& give_up : peer.calls) context_.loop.post(give_up);
  spawn(probe(server, stopped_));
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
  peers_[server].silent = false;
  log_info("server {} is asked again", server);
}

// As long as it is asked for something, and not silent.
Task<void> Suspects::watch(std::uint32_t server, std::shared_ptr<bool> stopped) {
  Peer& peer = peers_[server];
  do {
    const MonoTime now = context_.loop.now();
    const bool answered = co_await answers(server, kAnswers);
    if (*stopped) co_return;
    if (!answered && peer.heard < now) silent(server);
    co_await context_.loop.sleep(kInterval);
    if (*stopped) co_return;
  } while (!peer.silent && (!peer.calls.empty() || context_.loop.now() - peer.asked <= kLately));
  peer.watched = false;
}

}  // namespace slice::storagenode
