#include "service/relayed_changes.h"

#include "common/crc32c.h"

namespace slice::service {

RelayedChanges::Key RelayedChanges::key_of(const rpc::Call& call) {
  return {call.client, call.xid, call.procedure, crc32c(call.arguments), caller_key(call)};
}

RelayedChanges::Seen RelayedChanges::look(const rpc::Call& call) {
  const MonoTime oldest = loop_.now() - kLife;
  while (!answered_.empty() && (answered_.size() > kAnswers || answered_.front().at < oldest)) {
    known_.erase(answered_.front().key);
    answered_.pop_front();
  }
  auto found = known_.find(key_of(call));
  if (found == known_.end()) return {.state = Seen::State::kNew, .results = {}};
  const std::optional<std::string>& results = found->second.results;
  if (!results) return {.state = Seen::State::kUnderWay, .results = {}};
  return {.state = Seen::State::kAnswered, .results = *results};
}

Task<void> RelayedChanges::over(Key key) {
  const auto found = known_.find(key);
  if (found == known_.end() || found->second.results) co_return;
  const OneShot<bool> ended;
  found->second.waiters.push_back(ended);
  co_await ended;
}

void RelayedChanges::tell(std::vector<OneShot<bool>> waiters) {
  if (waiters.empty()) return;
  loop_.post([ended = std::move(waiters)] {
    for (const OneShot<bool>& each : ended) each.set(true);
  });
}

void RelayedChanges::end(const Key& key, std::string_view results) {
  Known& known = known_[key];
  known.results = std::string(results);
  answered_.push_back({loop_.now(), key});
  tell(std::exchange(known.waiters, {}));
}

void RelayedChanges::forget(const Key& key) {
  if (auto known = known_.extract(key)) tell(std::move(known.mapped().waiters));
}

}  // namespace slice::service
