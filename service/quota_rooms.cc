#include "service/quota_rooms.h"

#include <algorithm>

namespace slice::service {
namespace {

constexpr std::uint64_t kBlock = 4096;

std::uint64_t blocks(std::uint64_t bytes) {
  return bytes > ~std::uint64_t{0} - kBlock ? bytes : (bytes + kBlock - 1) / kBlock * kBlock;
}

}  // namespace

std::uint64_t solid_bytes(const nfs3::Attributes& attributes) {
  return attributes.used >= blocks(attributes.size) ? attributes.size : 0;
}

std::uint64_t quota_need(std::uint64_t solid, std::uint64_t offset, std::uint64_t count) {
  if (count == 0) return 0;
  const std::uint64_t begin = std::max(offset / kBlock * kBlock, blocks(solid)), end = blocks(offset + count);
  return end > begin ? end - begin : 0;
}

// One of the calls that need a budget; it stays as long as there is one.
class QuotaRooms::User {
 public:
  User(QuotaRooms& rooms, QuotaOwners owners)
      : rooms_(rooms), at_(rooms.budgets_.try_emplace(owners, rooms.context_.loop).first) {
    ++at_->second.users;
  }
  User(const User&) = delete;
  User& operator=(const User&) = delete;
  ~User() {
    --at_->second.users;
    rooms_.drop_if_unused(at_);
  }
  Budget& budget() { return at_->second; }

 private:
  QuotaRooms& rooms_;
  std::map<QuotaOwners, Budget>::iterator at_;
};

QuotaRooms::QuotaRooms(ServiceContext& context, Ask ask)
    : context_(context), settings_(context.settings), ask_(std::move(ask)) {}

bool QuotaRooms::limited(QuotaOwners owners) const {
  const Quotas& quotas = settings_.now().quotas;
  if (quotas.empty()) return false;
  const auto ids = owners.ids();
  return std::any_of(ids.begin(), ids.end(), [&quotas](QuotaId whose) {
    const auto found = quotas.find(whose);
    return found != quotas.end() && found->second.space.any();
  });
}

bool QuotaRooms::take_from(Budget& budget, std::uint64_t bytes) const {
  if (budget.left < bytes || context_.loop.now() >= budget.until) return false;
  budget.left -= bytes;
  budget.held += bytes;
  return true;
}

Task<Result<QuotaRooms::Answer>> QuotaRooms::take(routing::FileHandle file, QuotaOwners owners,
                                                  std::uint64_t bytes) {
  User user(*this, owners);
  Budget& budget = user.budget();
  if (take_from(budget, bytes)) co_return Answer{.there = true, .room = Taken(*this, owners, bytes)};
  // One question at a time: the answer to each goes in place of what was promised before.
  auto lock = co_await budget.asking.lock();
  if (take_from(budget, bytes)) co_return Answer{.there = true, .room = Taken(*this, owners, bytes)};
  budget.left = 0;
  const MonoTime asked = context_.loop.now();
  auto result = co_await ask_(
      file, {.server = context_.self.index, .owners = owners, .held = budget.held, .needed = bytes});
  if (!result) co_return fail(Errc::kUnavailable, "asking for room: {}", result.error().message);
  budget.left = result->promised;
  budget.until = asked + kUsed;
  if (result->promised >= bytes && take_from(budget, bytes))
    co_return Answer{.there = true, .room = Taken(*this, owners, bytes)};
  co_return Answer{.others = result->others || result->promised >= bytes, .room = {}};
}

void QuotaRooms::drop_if_unused(std::map<QuotaOwners, Budget>::iterator budget) {
  const Budget& what = budget->second;
  if (what.users > 0 || what.held > 0 || (what.left > 0 && context_.loop.now() < what.until)) return;
  budgets_.erase(budget);
}

void QuotaRooms::release(QuotaOwners owners, std::uint64_t bytes) {
  const auto found = budgets_.find(owners);
  if (found == budgets_.end()) return;
  found->second.held -= std::min(found->second.held, bytes);
  drop_if_unused(found);
}

void QuotaRooms::charge(FileId file, QuotaOwners owners, std::uint64_t bytes) {
  Charge& charge = charges_[file];
  if (charge.owners != owners) {
    // The file has changed hands: its directory server knows, and counts what it was told for the new ones.
    release(charge.owners, charge.untold + charge.telling);
    charge = {.owners = owners};
  }
  charge.untold += bytes;
}

void QuotaRooms::telling(FileId file) {
  if (const auto found = charges_.find(file); found != charges_.end())
    found->second.telling += std::exchange(found->second.untold, 0);
}

void QuotaRooms::told(FileId file, bool well) {
  const auto found = charges_.find(file);
  if (found == charges_.end()) return;
  Charge& charge = found->second;
  const std::uint64_t bytes = std::exchange(charge.telling, 0);
  if (well) {
    release(charge.owners, bytes);
  } else {
    charge.untold += bytes;
  }
  if (charge.untold == 0) charges_.erase(found);
}

}  // namespace slice::service
