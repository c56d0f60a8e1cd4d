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
  if (!found->second) return {.state = Seen::State::kUnderWay, .results = {}};
  return {.state = Seen::State::kAnswered, .results = *found->second};
}

void RelayedChanges::end(const Key& key, std::string_view results) {
  known_[key] = std::string(results);
  answered_.push_back({loop_.now(), key});
}

}  // namespace slice::service
