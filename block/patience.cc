#include "block/patience.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace slice::block {
namespace {

Task<void> go_on(Task<Status> operation, std::shared_ptr<const void> owner,
                 OneShot<std::optional<Status>> ended) {
  ended.set(co_await std::move(operation));
  owner.reset();
}

}  // namespace

Patience::Patience(Loop& loop, Duration time, std::string message)
    : loop_(loop), time_(time), message_(std::move(message)) {}

Task<Status> Patience::within(Task<Status> operation, std::shared_ptr<const void> owner) const {
  if (endless()) co_return co_await std::move(operation);
  const OneShot<std::optional<Status>> ended;
  spawn(go_on(std::move(operation), std::move(owner), ended));
  const TimerId over = loop_.after(time_, [ended] { ended.set(std::nullopt); });
  auto status = co_await ended;
  loop_.cancel(over);
  if (status) co_return std::move(*status);
  co_return fail(Errc::kTimedOut, "{}", message_);
}

Task<Status> Patience::fill(ByteSpan into, std::function<Task<Status>(ByteSpan)> operation,
                            std::shared_ptr<const void> owner) const {
  if (endless()) co_return co_await operation(into);
  using Kept = std::pair<std::shared_ptr<const void>, Buffer>;
  const auto kept = std::make_shared<Kept>(std::move(owner), Buffer(into.size()));
  SLICE_CO_RETURN_IF_ERROR(co_await within(operation(kept->second.span()), kept));
  std::ranges::copy(kept->second.view(), into.begin());
  co_return Status{};
}

}  // namespace slice::block
