// ManagerRole: slice-managerd as a process sees it: stands for leader (state_store.h), and is a Manager for
// as long as it leads, a new one each time, as after a restart. Where it does not, it answers LEADER, and
// everything else with SYSTEM_ERR. One loop.
#ifndef SLICE_CONTROL_MANAGER_ROLE_H
#define SLICE_CONTROL_MANAGER_ROLE_H

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "control/manager/manager.h"
#include "control/manager/state_store.h"
#include "service/context.h"
#include "service/internal_program.h"
#include "service/process.h"

namespace slice::manager {

class ManagerRole : public service::InternalProgram, public service::Role {
 public:
  // What is spawned in a term, and not waited for, has ended so long after it: calls end by their time-outs.
  static constexpr Duration kRetired = std::chrono::minutes(10);
  // A manager that cannot begin its term lets others try for so long.
  static constexpr Duration kFailedPause = std::chrono::seconds(5);

  // The engine that the configuration names.
  explicit ManagerRole(service::ServiceContext& context);
  // `context` outlives it. With an error for a store it does not start, and says that.
  ManagerRole(service::ServiceContext& context, Result<std::unique_ptr<StateStore>> store);
  ~ManagerRole() override;

  // Where it always leads, an error of the state is the process's.
  Task<Status> start() override;
  std::vector<rpc::Program*> programs() override { return {this}; }
  Task<void> stop() override;
  std::string state() const override;
  std::string detail() const override;
  Task<wire::ReloadResult> reload() override;
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override;

  bool leads() const;
  wire::LeaderResult leader() const;
  // For tests: of the term; null: there is none.
  const Manager* manager() const;

 private:
  // A manager, with what it has of the store: closed when its term is over, also where this process leads
  // again by then.
  struct Term;
  void begin();
  void end();
  static Task<void> lead(ManagerRole& self, std::shared_ptr<Term> term);
  Task<Status> take_over_files(StateStore& store);
  void forget_retired();

  service::ServiceContext& context_;
  const Status unfit_;
  std::unique_ptr<StateStore> store_;
  bool alone_ = false;  // nobody else can lead
  std::shared_ptr<Term> term_;
  std::deque<std::pair<MonoTime, std::shared_ptr<Term>>> retired_;
  std::string trouble_;  // why the last term could not begin
  bool stopped_ = false;
  Counter &leads_, &terms_, &refused_;
};

// For service::run_process().
service::ServerKind server_kind();

}  // namespace slice::manager

#endif  // SLICE_CONTROL_MANAGER_ROLE_H
