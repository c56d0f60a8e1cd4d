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
    if (!found->second.answered) {
      bool back = call.relays > found->second.relays;
      return {back ? Seen::State::kComesBack : Seen::State::kUnderWay, {}};
    }
    return {Seen::State::kAnswered, found->second.reply};
  }
  found->second.relays = call.relays;
  order_.push_back(key);
  if (order_.size() > kMaxEntries) {
    entries_.erase(order_.front());
    order_.pop_front();
  }
  return {};
}

void LateWrites::end(const rpc::Call& call, std::string_view results) {
  auto found = entries_.find(key_of(call));
  if (found != entries_.end()) found->second = {call.relays, true, std::string(results)};
}

void LateWrites::forget(const rpc::Call& call) {
  Key key = key_of(call);
  if (entries_.erase(key) > 0) std::erase(order_, key);
}

}  // namespace slice::service
