#include "service/placing.h"

#include <algorithm>

namespace slice::service {

using NfsStatus = nfs3::Status;

namespace {

constexpr Duration kDrainPatience = std::chrono::seconds(30);  // of requests that came before a copy began
constexpr std::size_t kMaxNumbers = 65536;  // stripes whose last placed write is remembered

}  // namespace

std::uint64_t WriteNumbers::next(WallTime now) {
  last_ = std::max(last_ + 1, static_cast<std::uint64_t>(now.ns));
  return last_;
}

void WriteNumbers::see(std::uint64_t number) {
  last_ = std::max(last_, number);
}

std::uint64_t WriteNumbers::greatest(StripeName stripe) const {
  auto found = taken_.find(stripe);
  return found == taken_.end() ? forgotten_ : found->second;
}

bool WriteNumbers::take(StripeName stripe, std::uint64_t number) {
  if (number <= greatest(stripe)) return false;
  if (taken_.size() >= kMaxNumbers) {
    for (const auto& [of, greatest] : taken_) forgotten_ = std::max(forgotten_, greatest);
    taken_.clear();
    if (number <= forgotten_) return false;
  }
  taken_[stripe] = number;
  return true;
}

Task<slice::Status> Departures::join(Leaving leaving, SiteGate& gate) {
  all_.push_back(leaving);
  if (!co_await gate.drained(leaving->move().sites, kDrainPatience)) {
    co_return fail(Errc::kUnavailable, "requests from before it have not ended within {} s",
                   std::chrono::duration_cast<std::chrono::seconds>(kDrainPatience).count());
  }
  co_return slice::Status{};
}

Leaving Departures::of(std::uint32_t site) const {
  for (const Leaving& each : all_) {
    if (each->has(site)) return each;
  }
  return nullptr;
}

Placed judge(const Result<wire::PlaceResult>& result, LeavingSites& leaving, ServiceContext& context,
             WriteNumbers& numbers) {
  if (!result) {
    leaving.fail(fmt::format("the new owner does not answer: {}", result.error().message));
    return Placed::kFailed;
  }
  context.verifier.see(result->verifier);
  numbers.see(result->number);
  switch (result->status) {
    case NfsStatus::kOk:
      return Placed::kDone;
    case NfsStatus::kNotSync:
      return Placed::kAgain;
    case NfsStatus::kNoEnt:
      return Placed::kRemoved;
    default:
      leaving.fail(fmt::format("the new owner answers a write with {}", nfs3::status_name(result->status)));
      return Placed::kFailed;
  }
}

Arrivals::Placing Arrivals::enter(std::uint64_t move, std::uint64_t attempt, std::uint32_t site) const {
  auto found = by_move_.find(move);
  const bool fits = found != by_move_.end() && found->second->attempt == attempt &&
                    wire::has_site(found->second->sites, site);
  return Placing(fits ? found->second : nullptr);
}

void Arrivals::open(const wire::SiteMove& move, std::uint64_t attempt) {
  by_move_[move.id.value] =
      std::make_shared<Arriving>(Arriving{.attempt = attempt, .sites = move.sites, .placing = 0});
}

Task<void> Arrivals::close(wire::MoveId move) {
  auto found = by_move_.extract(move.value);
  if (!found) co_return;
  const std::shared_ptr<Arriving>& closed = found.mapped();
  while (closed->placing > 0) co_await loop_.sleep(std::chrono::milliseconds(1));
}

}  // namespace slice::service
