#include "rpc/in_process.h"

#include <algorithm>

#include "common/trace.h"
#include "rpc/call.h"

namespace slice::rpc {

InProcessNetwork::InProcessNetwork(Loop& loop, std::optional<EnsembleKey> key, Endpoint from,
                                   std::uint32_t sender)
    : loop_(loop),
      key_(key),
      from_(from),
      sender_(sender),
      places_(std::make_shared<Places>()),
      delivered_(std::make_shared<std::uint64_t>(0)) {}

InProcessNetwork::InProcessNetwork(const InProcessNetwork& same, Endpoint from, std::uint32_t sender)
    : loop_(same.loop_),
      key_(same.key_),
      from_(from),
      sender_(sender),
      places_(same.places_),
      delivered_(same.delivered_) {}

InProcessNetwork::InProcessNetwork(const InProcessNetwork& same, const EnsembleKey& key, Endpoint from)
    : InProcessNetwork(same, from, 0) {
  key_ = key;
}

void InProcessNetwork::attach(Endpoint at, Dispatcher* dispatcher) {
  Place& place = (*places_)[at];
  place.dispatcher = dispatcher;
  place.key = key_;
  for (Attempt& attempt : std::exchange(place.waiting, {})) {
    loop_.post([attempt] { attempt.set(std::nullopt); });
  }
}

Task<void> InProcessNetwork::deliver(Dispatcher& dispatcher, Buffer record, Endpoint from, bool member,
                                     Attempt attempt) {
  auto reply = co_await dispatcher.dispatch(std::move(record), from, 0, {.member = member});
  if (reply) attempt.set(std::move(reply));  // a dropped call is never answered
}

Task<Result<Response>> InProcessNetwork::call(Request request) {
  Xid xid{next_xid_++};
  Caller caller{.member = key_.has_value(),
                .sender = sender_,
                .generation = generation_ ? generation_() : Generation{}};
  Buffer record = encode_request(request, xid, caller, 0);
  SLICE_CO_RETURN_IF_ERROR(check_call_size(request, record.size()));
  TraceScope step(co_await current_trace(), step_of(request, xid));
  MonoTime deadline = loop_.now() + request.timeout;
  while (loop_.now() < deadline) {
    Attempt attempt;
    Place& place = (*places_)[request.to];
    place.waiting.push_back(attempt);
    TimerId timer = loop_.at(deadline, [attempt] { attempt.set(std::nullopt); });
    if (place.dispatcher != nullptr && key_ && place.key != key_) {
      loop_.cancel(timer);
      co_return tl::unexpected(other_key());
    }
    if (place.dispatcher != nullptr) {
      ++*delivered_;
      auto copy = std::make_shared<Buffer>(record.clone());
      loop_.post([dispatcher = place.dispatcher, places = places_, to = request.to, copy, from = from_,
                  member = key_.has_value(), attempt] {
        if (attempt.is_set() || (*places)[to].dispatcher != dispatcher) return;
        spawn(deliver(*dispatcher, std::move(*copy), from, member, attempt));
      });
    }
    std::optional<Buffer> reply = co_await attempt;
    loop_.cancel(timer);
    std::erase_if((*places_)[request.to].waiting, [](const Attempt& each) { return each.is_set(); });
    if (reply) {
      // As a network would: the answer arrives in its own turn.
      OneShot<bool> arrived;
      loop_.post([arrived] { arrived.set(true); });
      co_await arrived;
      co_return open_response(std::move(*reply), 0);
    }
  }
  co_return fail(Errc::kTimedOut, "no answer from {} within {} ms", to_string(request.to),
                 std::chrono::duration_cast<std::chrono::milliseconds>(request.timeout).count());
}

}  // namespace slice::rpc
