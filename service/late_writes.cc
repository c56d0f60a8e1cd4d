#include "service/late_writes.h"

#include "bpf/shared/file_handle.h"
#include "common/crc32c.h"

namespace slice::service {

namespace {

// Without the hint of the handle, which is the first argument: each proxy stamps what it knows, and so does
// the same one at another time.
std::uint32_t checksum(ByteView arguments) {
  constexpr std::size_t kHint = sizeof(std::uint32_t) + SLICE_HANDLE_AT_HINT,
                        kBehind = kHint + sizeof(std::uint64_t);
  if (arguments.size() < kBehind) return crc32c(arguments);
  return crc32c(arguments.subspan(kBehind), crc32c(arguments.first(kHint)));
}

}  // namespace

LateWrites::Seen LateWrites::begin(const rpc::Call& call) {
  Key key{call.client, call.xid, checksum(call.arguments), caller_key(call)};
  auto [found, fresh] = entries_.try_emplace(key);
  if (fresh) {
    found->second.relays = call.relays;
    return {.key = key};
  }
  if (found->second.place) return {Seen::State::kAnswered, found->second.reply, key};
  bool back = call.relays > found->second.relays;
  return {back ? Seen::State::kComesBack : Seen::State::kUnderWay, {}, key};
}

void LateWrites::end(const Key& key, std::string_view results) {
  auto found = entries_.find(key);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  entry.reply = results;
  const auto& [client, xid, checksum, caller] = key;
  // Their order says how old they are; nobody asks for the time.
  if (!entry.place) entry.place = order_.add({client.address, caller.uid}, 1, WallTime{}, key);
  while (order_.size() > kMaxEntries) forget(Key(order_.next_to_go()));
}

void LateWrites::forget(const Key& key) {
  auto found = entries_.find(key);
  if (found == entries_.end()) return;
  if (found->second.place) order_.erase(*found->second.place);
  entries_.erase(found);
}

}  // namespace slice::service
