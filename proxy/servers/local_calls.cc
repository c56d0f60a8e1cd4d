#include "proxy/servers/local_calls.h"

#include <utility>

#include "rpc/record.h"

namespace slice::proxy {

LocalCalls::LocalCalls(Loop& loop, ChunkPool& pool, LegTable& legs, rpc::InProcessNetwork* servers)
    : loop_(loop), pool_(pool), legs_(legs), servers_(servers) {}

// Not in the caller's own stack: a reply may end the call that sends this leg just now.
void LocalCalls::send(Leg& leg, rpc::Dispatcher& to) {
  ++leg.sends;
  leg.set_waits(false);
  leg.sent_at = loop_.now();
  Buffer bytes(leg.request.size() - rpc::kRecordMark);
  leg.request.copy_to(bytes.data(), rpc::kRecordMark);
  if (queue_.empty()) {
    loop_.post([this, alive = std::weak_ptr(alive_)] {
      if (!alive.expired()) deliver_all();
    });
  }
  queue_.push_back({&to, leg.xid, std::move(bytes)});
}

void LocalCalls::deliver_all() {
  delivering_.swap(queue_);
  for (Delivery& delivery : delivering_) {
    if (legs_.find(delivery.xid) != nullptr) spawn(serve(*this, std::move(delivery), alive_));
  }
  delivering_.clear();
}

Task<void> LocalCalls::serve(LocalCalls& self, Delivery delivery, std::weak_ptr<bool> alive) {
  std::optional<Buffer> reply =
      co_await delivery.to->dispatch(std::move(delivery.record), rpc::Endpoint{}, 0, {.member = true});
  if (alive.expired()) co_return;
  if (reply) {
    self.answered(delivery.xid, std::move(*reply));
  } else {
    self.dropped_.push_back({delivery.to, delivery.xid});
  }
}

void LocalCalls::answered(std::uint32_t xid, Buffer reply) {
  Leg* leg = legs_.find(xid);
  if (leg == nullptr) return;  // its client has left
  leg->answered(loop_.now_exactly());
  BufferChain record;
  record.append(pool_.adopt(std::move(reply)));
  leg->owner->on_reply(*leg, record);
}

void LocalCalls::tick() {
  for (const Dropped& dropped : std::exchange(dropped_, {})) {
    if (Leg* leg = legs_.find(dropped.xid)) send(*leg, *dropped.to);
  }
}

}  // namespace slice::proxy
