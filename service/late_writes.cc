#include "service/late_writes.h"

#include <algorithm>

#include "bpf/shared/file_handle.h"
#include "common/crc32c.h"
#include "rpc/dispatcher.h"
#include "service/caller_key.h"

namespace slice::service {
namespace {

constexpr std::size_t kBegin = 256;                        // bytes of the arguments that a call is known by
constexpr std::uint32_t kHashes = LateWrites::kCalls * 2;  // few calls share one

// Without the hint of the handle, which is the first argument: each proxy stamps what it knows, and so does
// the same one at another time.
std::uint32_t checksum(ByteView arguments) {
  constexpr std::size_t kHint = sizeof(std::uint32_t) + SLICE_HANDLE_AT_HINT,
                        kBehind = kHint + sizeof(std::uint64_t);
  arguments = arguments.first(std::min(arguments.size(), kBegin));
  if (arguments.size() < kBehind) return crc32c(arguments);
  return crc32c(arguments.subspan(kBehind), crc32c(arguments.first(kHint)));
}

std::uint64_t fingerprint(const rpc::Call& call) {
  const CallerKey caller = caller_key(call);
  std::uint8_t words[12];
  store_be(words, caller.uid);
  store_be(words + 4, caller.gid);
  store_be(words + 8, caller.groups);
  return std::uint64_t{crc32c(words)} << 32 | checksum(call.arguments);
}

}  // namespace

std::size_t LateWrites::KeyHash::operator()(const Key& key) const {
  const std::uint64_t who = std::hash<rpc::Endpoint>{}(key.client) ^ key.xid.value;
  const std::uint64_t mixed = (who ^ key.fingerprint) * 0x9e3779b97f4a7c15;
  return mixed >> 32;
}

bool LateWrites::Answered::is(const Key& key) const {
  return fingerprint == key.fingerprint && xid == key.xid.value && client() == key.client;
}

LateWrites::LateWrites(const Loop& loop) : loop_(loop), newest_(kHashes * sizeof(std::uint32_t)) {}

std::uint32_t& LateWrites::newest(const Key& key) const {
  return newest_.at<std::uint32_t>(0)[KeyHash{}(key) % kHashes];
}

std::uint32_t LateWrites::now() const {
  return static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::seconds>(loop_.now().time_since_epoch()).count());
}

std::uint32_t LateWrites::find(const Key& key) const {
  constexpr auto kSeconds = std::chrono::duration_cast<std::chrono::seconds>(kLife).count();
  for (std::uint32_t turn = newest(key); turn != 0 && turn_ - turn < kCalls;) {
    const Answered& answered = answered_[turn % kCalls];
    if (answered.is(key)) return now() - answered.seconds < kSeconds ? turn : 0;
    turn = answered.older;
  }
  return 0;
}

std::vector<wire::LateWrite> LateWrites::of(const std::vector<std::uint32_t>& sites) const {
  constexpr auto kSeconds = std::chrono::duration_cast<std::chrono::seconds>(kLife).count();
  std::vector<wire::LateWrite> found;
  for (std::uint32_t back = 0; back < std::min(turn_, kReplies) && found.size() < wire::kMaxLateWrites;
       ++back) {
    const std::uint32_t turn = turn_ - back;
    const Answered& answered = answered_[turn % kCalls];
    if (now() - answered.seconds >= kSeconds) break;
    if (!wire::has_site(sites, answered.site)) continue;
    const Reply& reply = replies_[turn % kReplies];
    found.push_back({.client = answered.client(),
                     .xid = answered.xid,
                     .fingerprint = answered.fingerprint,
                     .site = answered.site,
                     .status = nfs3::Status{answered.status},
                     .reply = std::string(reply.bytes.data(), reply.size)});
  }
  std::reverse(found.begin(), found.end());
  return found;
}

void LateWrites::learn(const wire::LateWrite& write) {
  const Key key{write.client, Xid{write.xid}, write.fingerprint};
  if (find(key) == 0) end(key, write.status, write.reply, write.site);
}

LateWrites::Seen LateWrites::begin(const rpc::Call& call) {
  const Key key{call.client, call.xid, fingerprint(call)};
  if (const std::uint32_t turn = find(key); turn != 0) {
    Seen seen{
        .state = Seen::State::kAnswered, .status = nfs3::Status{answered_[turn % kCalls].status}, .key = key};
    const Reply& reply = replies_[turn % kReplies];
    if (turn_ - turn < kReplies) seen.reply = {reply.bytes.data(), reply.size};
    return seen;
  }
  auto [found, fresh] = under_way_.try_emplace(key);
  UnderWay& first = found->second;
  if (fresh) {
    first.relays = call.relays;
    return {.key = key, .passed_on = &first.passed_on};
  }
  if (call.relays <= first.relays) return {.state = Seen::State::kUnderWay, .key = key};
  return {.state = first.passed_on ? Seen::State::kComesBack : Seen::State::kPassedOn, .key = key};
}

std::vector<OneShot<bool>> LateWrites::take(const Key& key) {
  auto ended = under_way_.extract(key);
  return ended ? std::move(ended.mapped().waiters) : std::vector<OneShot<bool>>();
}

void LateWrites::forget(const Key& key) {
  for (const OneShot<bool>& each : take(key)) each.set(true);
}

Task<void> LateWrites::over(const Key& key) {
  const auto found = under_way_.find(key);
  if (found == under_way_.end()) co_return;
  const OneShot<bool> ended;
  found->second.waiters.push_back(ended);
  co_await ended;
}

void LateWrites::end(const Key& key, nfs3::Status status, std::string_view results, std::uint32_t site) {
  const std::vector<OneShot<bool>> waiters = take(key);
  if (++turn_ == 0) ++turn_;  // 0 is none
  std::uint32_t& newest = this->newest(key);
  answered_[turn_ % kCalls] = {.fingerprint = key.fingerprint,
                               .address_high = key.client.address.high(),
                               .address_low = key.client.address.low(),
                               .xid = key.xid.value,
                               .port = key.client.port,
                               .status = static_cast<std::uint16_t>(status),
                               .seconds = now(),
                               .older = newest,
                               .site = site};
  newest = turn_;
  Reply& reply = replies_[turn_ % kReplies];
  reply.size = results.size() <= Reply::kMost ? static_cast<std::uint8_t>(results.size()) : std::uint8_t{0};
  results.copy(reply.bytes.data(), reply.size);
  for (const OneShot<bool>& each : waiters) each.set(true);
}

}  // namespace slice::service
