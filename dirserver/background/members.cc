#include "dirserver/background/members.h"

#include <chrono>
#include <utility>

namespace slice::dirserver {

const std::vector<wire::Member>& Members::get() {
  const bool old = !answered_at_ || context_.loop.now() - *answered_at_ >= kMaxAge;
  if (old && !asking_) spawn(ask());
  return members_;
}

Task<void> Members::first() {
  if (version_ == 0 && !asking_) co_await ask();
}

Task<void> Members::ask() {
  if (context_.config.first(ServerRole::kManager) == nullptr) co_return;
  asking_ = true;
  managers_.learn(context_.tables.get()->wire());
  auto result = co_await managers_.call<wire::MembersResult>(
      context_.channel, wire::ManagerProcedure::kMembers, service::NoArguments{}, std::chrono::seconds(1));
  asking_ = false;
  answered_at_ = context_.loop.now();
  if (!result) co_return;
  members_ = std::move(result->members);
  ++version_;
}

}  // namespace slice::dirserver
