#include "service/late_writes.h"

#include "common/crc32c.h"

namespace slice::service {

LateWrites::Seen LateWrites::begin(const rpc::Call& call) {
  Key key{call.client, call.xid, crc32c(call.arguments)};
  auto [found, fresh] = entries_.try_emplace(key);
  if (!fresh) {
    if (!found->second.answered) {
      bool back = call.relays > found->second.relays;
      return {back ? Seen::State::kComesBack : Seen::State::kUnderWay, {}, key};
    }
    return {Seen::State::kAnswered, found->second.reply, key};
  }
  found->second.relays = call.relays;
  order_.push_back(key);
  if (order_.size() > kMaxEntries) {
    entries_.erase(order_.front());
    order_.pop_front();
  }
  return {.key = key};
}

void LateWrites::end(const Key& key, std::string_view results) {
  auto found = entries_.find(key);
  if (found == entries_.end()) return;
  found->second.answered = true;
  found->second.reply = results;
}

void LateWrites::forget(const Key& key) {
  if (entries_.erase(key) > 0) std::erase(order_, key);
}

}  // namespace slice::service
