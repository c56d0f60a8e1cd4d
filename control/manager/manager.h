// Manager: the manager program of slice-managerd: who is alive, which tables are in force, and the sequence
// that write verifiers are drawn from. One loop.
#ifndef SLICE_CONTROL_MANAGER_MANAGER_H
#define SLICE_CONTROL_MANAGER_MANAGER_H

#include <optional>
#include <vector>

#include "common/log.h"
#include "control/manager/state.h"
#include "rpc/dispatcher.h"
#include "service/context.h"
#include "service/process.h"

namespace slice::manager {

class Manager : public rpc::Program, public service::Role {
 public:
  // A process that was silent for longer counts as dead.
  static constexpr Duration kPatience = std::chrono::seconds(5);

  explicit Manager(service::ServiceContext& context);

  // Loads or makes the state and fits it to the configuration (reconcile()).
  Task<Status> start() override;
  std::vector<rpc::Program*> programs() override { return {this}; }
  Task<void> stop() override;
  std::string state() const override { return "serving"; }
  std::string detail() const override;

  std::uint32_t number() const override { return wire::kManagerProgram; }
  std::uint32_t version() const override { return wire::kInternalVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override;

  const ManagerState& durable_state() const { return state_; }
  wire::MembersResult members() const;

 private:
  struct Heard {
    wire::HeartbeatArgs last;
    std::optional<MonoTime> at;  // none: never
    bool said_dead = false;
  };

  Task<rpc::Outcome> heartbeat(const rpc::Call& call, rpc::XdrWriter& results);
  Task<rpc::Outcome> draw(const rpc::Call& call, rpc::XdrWriter& results);
  // Never lets a process be ahead: what it has seen was given out, even where the state file knows less (it
  // was restored from an old copy).
  Task<void> catch_up(const wire::HeartbeatArgs& args);
  Task<Status> adopt(ManagerState next);  // durably; with the lock held
  bool alive(const Heard& heard) const;
  void watch();
  std::size_t count_alive() const;

  service::ServiceContext& context_;
  AsyncMutex change_;  // one change of the state at a time
  ManagerState state_;
  std::vector<Heard> heard_;  // by index in the configuration
  bool stopped_ = false;
  LogLimiter unknown_log_{1};
  Counter& alive_gauge_;
  Counter& drawn_gauge_;
};

// For service::run_process().
service::ServerKind server_kind();

}  // namespace slice::manager

#endif  // SLICE_CONTROL_MANAGER_MANAGER_H
