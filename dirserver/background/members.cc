#include "dirserver/background/members.h"

#include "service/internal_call.h"

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
  const ServerConfig* manager = context_.config.first(ServerRole::kManager);
  if (manager == nullptr) co_return;
  asking_ = true;
  auto result = co_await service::internal_call<wire::MembersResult>(
      context_.channel, {manager->address, manager->port}, wire::kManagerProgram,
      wire::ManagerProcedure::kMembers, service::NoArguments{}, std::chrono::seconds(1));
  asking_ = false;
  answered_at_ = context_.loop.now();
  if (!result) co_return;
  members_ = std::move(result->members);
  ++version_;
}

}  // namespace slice::dirserver
