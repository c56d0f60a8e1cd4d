#include "service/managers.h"

#include <memory>
#include <utility>

#include "wire/leader.h"

namespace slice::service {

// What the answers have in common; as long as one is waited for.
struct Managers::Search {
  std::size_t left = 0;  // that have not answered
  std::string trouble;   // of somebody who could lead otherwise
  OneShot<std::optional<std::size_t>> found;

  static Task<void> ask(std::shared_ptr<Search> self, rpc::Channel& channel, rpc::Endpoint to,
                        std::size_t number) {
    auto answer = co_await internal_call<wire::LeaderResult>(channel, to, wire::kManagerProgram,
                                                             wire::ManagerProcedure::kLeader, NoArguments{},
                                                             kFindTimeout, kRefusedPatience);
    --self->left;
    if (answer && !answer->trouble.empty()) self->trouble = answer->trouble;
    if (self->found.is_set()) co_return;
    if (answer && answer->leads) {
      self->found.set(number);
    } else if (self->left == 0) {
      self->found.set(std::nullopt);
    }
  }
};

Managers::Managers(const EnsembleConfig& config) : shared_(config.managers.shared()) {
  for (const ServerConfig& each : config.servers) {
    if (each.role == ServerRole::kManager) managers_.push_back({each.name, {each.address, each.port}});
  }
  // A configuration that was read has one; tests make some that have none, and call nobody.
  if (managers_.empty()) managers_.emplace_back();
}

void Managers::learn(const wire::Tables& tables) {
  if (!shared_) return;
  for (const wire::ServerEntry& entry : tables.servers) {
    auto same = [&](const Manager& each) { return each.name == entry.name; };
    if (entry.role == wire::Role::kManager && std::none_of(managers_.begin(), managers_.end(), same))
      managers_.push_back({entry.name, entry.endpoint});
  }
}

std::string Managers::text() const {
  std::string text;
  for (const Manager& each : managers_) text += (text.empty() ? "" : ", ") + rpc::to_string(each.endpoint);
  return text;
}

Task<Status> Managers::find(rpc::Channel& channel) {
  auto search = std::make_shared<Search>();
  search->left = managers_.size();
  for (std::size_t i = 0; i < managers_.size(); ++i)
    spawn(Search::ask(search, channel, managers_[i].endpoint, i));
  const OneShot<std::optional<std::size_t>> found = search->found;
  const std::optional<std::size_t> leads = co_await found;
  if (!leads) {
    co_return fail(Errc::kUnavailable, "none of {} managers leads{}{}", managers_.size(),
                   search->trouble.empty() ? "" : ": ", search->trouble);
  }
  current_ = *leads;
  known_ = true;
  co_return Status{};
}

}  // namespace slice::service
