// Manager: the manager program of slice-managerd, for as long as it leads (role.h): who is alive, which
// tables are in force, and the sequence that write verifiers are drawn from. What it knows beyond the state
// is learned anew by each. A manager without a state deals no tables before it knows that there are none in
// use (survey.h); until then it gives out neither tables nor verifiers. One loop.
#ifndef SLICE_CONTROL_MANAGER_MANAGER_H
#define SLICE_CONTROL_MANAGER_MANAGER_H

#include <optional>
#include <vector>

#include "common/log.h"
#include "control/manager/address_lease.h"
#include "control/manager/backing_sets.h"
#include "control/manager/client_shares.h"
#include "control/manager/failovers.h"
#include "control/manager/moves.h"
#include "control/manager/quota_book.h"
#include "control/manager/settings_book.h"
#include "control/manager/state.h"
#include "control/manager/survey.h"
#include "control/manager/tree_book.h"
#include "service/context.h"
#include "service/internal_program.h"
#include "wire/configuration.h"
#include "wire/settings.h"

namespace slice::manager {

class Manager : public service::InternalProgram {
 public:
  // A process that was silent for longer counts as dead.
  static constexpr Duration kPatience = std::chrono::seconds(5);

  // Both outlive it. It changes what `store` has, and nobody else does so meanwhile.
  Manager(service::ServiceContext& context, StateStore& store);

  // Loads the state; where there is none, begins to find out what the ensemble has.
  Task<Status> start();
  // What is under way ends by itself, and finds the store closed.
  void stop();
  std::string state() const { return survey_ ? "waiting: " + waits_for_ : "serving"; }
  std::string detail() const;
  Task<wire::ReloadResult> reload() { return settings_.reload(); }

  const ManagerState& durable_state() const { return state_; }
  wire::MembersResult members() const;

 private:
  struct Heard {
    wire::HeartbeatArgs last;
    std::optional<MonoTime> at;  // none: never
    bool said_dead = false;
    std::optional<MonoTime>
        other_at;  // when the process before this one was heard last; none: there was none
  };

  Task<wire::HeartbeatResult> heartbeat(const wire::HeartbeatArgs& args);
  Task<wire::OfferTablesResult> offer(const wire::OfferTablesArgs& args);
  // kError: from nobody known, or it is not known which tables are in force.
  Task<rpc::Outcome> claim(const wire::ClaimArgs& args, rpc::XdrWriter& results);
  // What the manager says to a server without a record.
  wire::ClaimResult grant(const wire::ClaimArgs& args);
  // With the lock held: notes durably that the server has a record, and follows what records say.
  Task<Status> follow_record(std::uint32_t server);
  Moves::Hooks hooks_for_moves();
  BackingSets::Hooks hooks_for_backing();
  Failovers::Hooks hooks_for_failovers();
  // Notes what a member says, in place of what it said before.
  void note(const wire::HeartbeatArgs& args);
  // Processes of this member are heard by turns.
  bool is_twice(std::uint32_t server) const;
  // Durably, one change of the state at a time. kUnavailable while there is a survey.
  Task<Status> change(StateChange change);
  Task<wire::ChangeServerResult> change_server(wire::ChangeServerArgs args);
  // kUnavailable: a coordinator may have stripes on this storage server, or may put some there.
  Task<Status> check_emptied(std::string name);
  // What all coordinators say of that, in order; kUnavailable: one of them does not say that nothing is
  // there.
  Task<Result<std::vector<std::uint64_t>>> ask_emptied(std::string name);
  // kInvalid: the server is heard of.
  Status check_silent(const std::string& name) const;
  // Whether the heartbeat asks its sender for its record.
  bool wants_record(const wire::HeartbeatArgs& args);
  // kError while there is a survey: nobody knows.
  Task<rpc::Outcome> draw(rpc::XdrWriter& results);
  Task<rpc::Outcome> change_backing_members(const wire::BackingMembersArgs& args, rpc::XdrWriter& results);
  Task<rpc::Outcome> tables(rpc::XdrWriter& results);
  // As they are stored.
  Task<wire::StateResult> files_of_state();
  // What the heartbeat asks of its sender, whose tables may be newer than the state's (it was restored from
  // an old copy).
  bool wants_tables(const wire::HeartbeatArgs& args);
  // Never lets a process be ahead: the verifier that it has seen was drawn, even where the state knows less.
  Task<void> catch_up(const wire::HeartbeatArgs& args);
  // Without a state: makes one where enough is known.
  Task<void> settle();
  // Newer tables than the state's, as a process has them.
  Task<Status> take_over(const wire::Tables& offered);
  Task<Status> adopt(ManagerState next);  // durably; with the lock held
  Task<void> keep_copy(wire::Tables tables);
  // Has every process that is alive take the tables now, and not with its next heartbeat.
  void announce();
  void tell(rpc::Endpoint process);
  bool is_member(std::uint32_t server) const;
  bool alive(const Heard& heard) const;
  void watch();
  std::size_t count_alive() const;

  service::ServiceContext& context_;
  StateStore& store_;
  AsyncMutex change_;   // one change of the state at a time
  ManagerState state_;  // while there is a survey: generation 0, and the servers of the configuration alone
  std::uint64_t digest_ = 0;                                               // of the state's tables
  const std::vector<wire::ServerEntry>& entries_ = state_.tables.servers;  // the members, by number
  Records records_;
  Moves moves_;
  BackingSets backing_sets_;
  Failovers failovers_;
  SettingsBook settings_;
  QuotaBook quotas_;
  TreeBook trees_;
  AddressLease address_;
  ClientShares shares_;
  std::optional<Survey> survey_;  // none: the state is known
  std::string waits_for_;         // with a survey
  std::vector<Heard> heard_;      // by member
  bool stopped_ = false;
  LogLimiter unknown_log_{1}, offer_log_{1}, differ_log_{1}, record_log_{1};
  Counter& alive_gauge_;
  Counter& drawn_gauge_;
  Counter &offers_taken_, &offers_refused_, &differing_, &conflicts_;
  Counter &configurations_given_, &configurations_refused_;
};

}  // namespace slice::manager

#endif  // SLICE_CONTROL_MANAGER_MANAGER_H
