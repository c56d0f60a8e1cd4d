#include "service/late_writes.h"

#include "common/crc32c.h"

namespace slice::service {

LateWrites::Key LateWrites::key_of(const rpc::Call& call) {
  return {call.client, call.xid, crc32c(call.arguments)};
}

LateWrites::Seen LateWrites::begin(const rpc::Call& call) {
  Key key = key_of(call);
  auto [found, fresh] = entries_.try_emplace(key);
  if (!fresh) {
    if (!found->second.answered) return {Seen::State::kUnderWay, {}};
    return {Seen::State::kAnswered, found->second.reply};
  }
  order_.push_back(key);
  if (order_.size() > kMaxEntries) {
    entries_.erase(order_.front());
    order_.pop_front();
  }
  return {};
}

void LateWrites::end(const rpc::Call& call, std::string_view results) {
  auto found = entries_.find(key_of(call));
  if (found == entries_.end()) return;
  if (results.empty()) {
    std::erase(order_, found->first);
    entries_.erase(found);
    return;
  }
  found->second = {true, std::string(results)};
}

}  // namespace slice::service
