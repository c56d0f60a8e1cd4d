#include "service/relayed_changes.h"

#include "common/crc32c.h"

namespace slice::service {

RelayedChanges::Seen RelayedChanges::begin(const rpc::Call& call) {
  const Key key{call.client, call.xid, call.procedure, crc32c(call.arguments)};
  const MonoTime oldest = loop_.now() - kLife;
  while (!answered_.empty() && (answered_.size() > kAnswers || answered_.front().at < oldest)) {
    known_.erase(answered_.front().key);
    answered_.pop_front();
  }
  auto [found, fresh] = known_.try_emplace(key);
  if (fresh) return {.state = Seen::State::kNew, .results = {}, .key = key};
  if (!found->second) return {.state = Seen::State::kUnderWay, .results = {}, .key = key};
  return {.state = Seen::State::kAnswered, .results = *found->second, .key = key};
}

void RelayedChanges::end(const Key& key, std::string_view results) {
  known_[key] = std::string(results);
  answered_.push_back({loop_.now(), key});
}

}  // namespace slice::service
