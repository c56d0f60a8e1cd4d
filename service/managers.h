// Managers: how a process asks the ensemble's manager; where there are several, the one that leads. It goes
// on to another when that one is away or leads no more, and remembers who answered.
//
//   Managers managers(config);
//   auto tables = co_await managers.call<wire::Tables>(channel, wire::ManagerProcedure::kGetTables,
//                                                      NoArguments{}, timeout);
// One loop.
#ifndef SLICE_SERVICE_MANAGERS_H
#define SLICE_SERVICE_MANAGERS_H

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "common/config.h"
#include "common/loop.h"
#include "common/task.h"
#include "service/internal_call.h"
#include "wire/admin.h"
#include "wire/manager.h"

namespace slice::service {

class Managers {
 public:
  static constexpr Duration kFindTimeout = std::chrono::milliseconds(500);  // for who leads
  // Where nobody listens at a host that is there, as while a process restarts.
  static constexpr Duration kRefusedPatience = std::chrono::milliseconds(100);

  // Of the configuration, as it is now.
  explicit Managers(const EnsembleConfig& config);

  // Of several: those that came since are asked, too.
  void learn(const wire::Tables& tables);

  bool several() const { return managers_.size() > 1; }
  // For logs: where they are.
  std::string text() const;

  // One call of the manager program, or of the admin program of the manager's process. Errors are those of
  // internal_call(); kUnavailable also where of several none leads. Of several it takes two time-outs and two
  // of kFindTimeout at most, and may be made of two of them, one after the other. This and the channel
  // outlive it.
  template <class R, class Procedure, class Args>
  Task<Result<R>> call(rpc::Channel& channel, Procedure procedure, Args args,
                       Duration timeout = std::chrono::seconds(5), Duration refused_patience = Duration(0)) {
    constexpr bool kAdmin = std::is_same_v<Procedure, wire::AdminProcedure>;
    constexpr std::uint32_t kProgram = kAdmin ? wire::kAdminProgram : wire::kManagerProgram;
    if (!several()) {
      co_return co_await internal_call<R>(channel, managers_.front().endpoint, kProgram, procedure, args,
                                          timeout, refused_patience);
    }
    // An answer of one that leads no more counts for nothing: it is asked who does.
    for (bool again = false;; again = true) {
      if (!known_) SLICE_CO_RETURN_IF_ERROR(co_await find(channel));
      const std::size_t asked = current_;
      auto result = co_await internal_call<R>(channel, managers_[asked].endpoint, kProgram, procedure, args,
                                              timeout, kRefusedPatience);
      if (result || again || !says_not_who_leads(result.error())) co_return result;
      if (current_ == asked) known_ = false;
      if (!known_) SLICE_CO_RETURN_IF_ERROR(co_await find(channel));
      const bool refuses = result.error().code == Errc::kIo && current_ == asked;
      if (refuses) co_return result;
    }
  }

  // call(), for who cannot wait so long: kTimedOut where there is no answer within `limit`. What was asked
  // may come to a manager later than that, and later than what is asked next. The loop is the channel's.
  template <class R, class Procedure, class Args>
  Task<Result<R>> call_within(Loop& loop, rpc::Channel& channel, Procedure procedure, Args args,
                              Duration limit) {
    const OneShot<Result<R>> answer;
    spawn(set_answer<R>(*this, channel, procedure, std::move(args), limit, answer));
    const TimerId timer =
        loop.after(limit, [answer] { answer.set(fail(Errc::kTimedOut, "no manager has answered in time")); });
    auto result = co_await answer;
    loop.cancel(timer);
    co_return result;
  }

 private:
  struct Manager {
    std::string name;
    rpc::Endpoint endpoint;
  };
  struct Search;
  static bool says_not_who_leads(const Error& error) {
    return error.code == Errc::kIo || error.code == Errc::kUnavailable || error.code == Errc::kTimedOut;
  }
  template <class R, class Procedure, class Args>
  static Task<void> set_answer(Managers& self, rpc::Channel& channel, Procedure procedure, Args args,
                               Duration timeout, OneShot<Result<R>> answer) {
    answer.set(co_await self.call<R>(channel, procedure, std::move(args), timeout));
  }
  // Asks all of them at once, until one says that it leads.
  Task<Status> find(rpc::Channel& channel);

  const bool shared_;              // there may be several
  std::vector<Manager> managers_;  // at least one
  std::size_t current_ = 0;
  bool known_ = false;  // the current one leads, as far as is known
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_MANAGERS_H
