#include "block/byte_budget.h"

namespace slice::block {

bool ByteBudget::take(User& user, std::size_t bytes) {
  const std::size_t more = beyond_share(user.held_ + bytes) - beyond_share(user.held_);
  const bool its_turn = waiting_.empty() || waiting_.front() == &user;
  if (more > 0 && (!its_turn || more > common_ - common_used_)) {
    if (!user.waits_) waiting_.push_back(&user);
    user.waits_ = true;
    return false;
  }
  leave(user);
  user.held_ += bytes;
  common_used_ += more;
  return true;
}

void ByteBudget::give_back(User& user, std::size_t bytes) {
  common_used_ -= beyond_share(user.held_) - beyond_share(user.held_ - bytes);
  user.held_ -= bytes;
  if (!waiting_.empty()) wake_soon();
}

void ByteBudget::leave(User& user) {
  if (!user.waits_) return;
  user.waits_ = false;
  waiting_.remove(&user);
  if (!waiting_.empty()) wake_soon();
}

void ByteBudget::wake_soon() {
  if (waking_ != nullptr) return;
  waking_ = std::make_shared<ByteBudget*>(this);
  loop_.post([alive = std::weak_ptr(waking_)] {
    if (const auto budget = alive.lock()) (*budget)->wake();
  });
}

void ByteBudget::wake() {
  waking_.reset();
  if (!waiting_.empty()) waiting_.front()->on_room();  // who gets it lets the next one try
}

}  // namespace slice::block
