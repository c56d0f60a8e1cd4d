// A host of a simulated ensemble with one server, and the process on it. What nobody but the ensemble's own
// sources has to know.
#ifndef SLICE_TESTS_SIM_MACHINE_H
#define SLICE_TESTS_SIM_MACHINE_H

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "service/backing/backed_disk.h"
#include "service/manager_session.h"
#include "service/managers.h"
#include "service/process.h"
#include "tests/sim/ensemble.h"
#include "tests/sim/logged_memory.h"
#include "tests/sim/sim_proxy.h"

namespace slice::sim {

// What outlives a process.
struct SimEnsemble::Machine {
  Machine(ManualLoop& loop, ServerConfig server, std::uint64_t seed)
      : config(std::move(server)), loop_(loop), seed_(seed) {
    lose_disk();
  }
  rpc::Endpoint endpoint() const { return {config.address, config.port}; }
  // Of a proxy.
  rpc::Endpoint front() const;
  bool backed() const { return config.backing_copies > 0; }
  storage::MemoryDisk& disk() { return *disks_.back(); }
  // And gets a new one. What is left of a dead process may still name the old one.
  void lose_disk() {
    disks_.push_back(std::make_unique<storage::MemoryDisk>(
        loop_, storage::MemoryDisk::Options{.seed = seed_ + disks_.size()}));
  }

  const ServerConfig config;  // with the address that it has here
  std::string name;           // for people
  storage::MemoryMedium medium;
  std::unique_ptr<Process> process;
  bool serving = false;
  bool gone = false;         // for good: it was lost, or removed from the ensemble
  bool comes = false;        // later
  std::uint32_t number = 0;  // among the proxies
  bool served = false;       // ever
  MonoTime ill_until{};      // its disk
  MonoTime silent_until{};   // what managers share, to it
  bool had_errors = false;   // since the process started
  Duration wall_ahead{0};    // of other hosts' clocks

 private:
  ManualLoop& loop_;
  const std::uint64_t seed_;
  std::vector<std::unique_ptr<storage::MemoryDisk>> disks_;
};

// As service::HostedServer has it, but for sockets, files and operators.
class SimEnsemble::Process {
 public:
  Process(SimEnsemble& ensemble, Machine& machine);

  Task<slice::Status> start();
  void die(std::uint64_t survivors, std::uint64_t seed, bool silently);
  void stop_for(Duration time) { loop_.stop_for(time); }
  // It does what there is to do before its end.
  void terminate(std::string why) {
    loop_.post([this, why = std::move(why)] { spawn(end_cleanly(why)); });
  }
  bool stopped() const { return loop_.stopped(); }
  void set_wall_ahead(Duration ahead) { loop_.set_wall_ahead(ahead); }
  bool alive() const { return loop_.alive(); }
  // What it keeps; null: nothing is open.
  const storage::KvStore* store() const { return store_; }
  std::uint64_t metric(std::string_view name) { return metrics_.counter(name).value(); }
  service::Role& role() { return *role_; }

 private:
  // Where it keeps what it keeps; makes the backing set.
  storage::Disk& disk();
  Task<slice::Status> open_backing();
  Task<slice::Status> join_manager();
  void serve();
  // As by SIGTERM.
  Task<void> end_cleanly(std::string why);
  wire::HeartbeatArgs told();
  std::unique_ptr<service::Role> make_role();
  std::unique_ptr<service::Role> make_manager();
  Result<std::unique_ptr<storage::KvStore>> open_store();

  SimEnsemble& ensemble_;
  Machine& machine_;
  Random random_;
  ProcessLoop loop_;
  Metrics metrics_;
  SimSocket socket_;
  std::unique_ptr<storage::Disk> local_disk_;
  service::Managers managers_;
  std::optional<service::BackingSet> backing_;  // none: what it keeps is on its own disk
  std::unique_ptr<storage::Disk> backed_disk_;
  routing::TableHolder tables_;
  LiveSettings settings_;
  service::VerifierClock verifier_;
  CrashPoints crash_;
  std::optional<service::ManagerSession> session_;
  service::ServiceContext context_;
  std::vector<std::unique_ptr<rpc::Program>> programs_;
  rpc::Dispatcher dispatcher_;
  StreamServer connections_;
  const storage::KvStore* store_ = nullptr;     // the role's
  storage::MemoryStore* own_store_ = nullptr;   // the same, where it is on its own disk
  std::unique_ptr<LoggedMemory> backed_store_;  // until the role takes it
  std::unique_ptr<service::Role> role_;
  bool leaves_ = false;
};

}  // namespace slice::sim

#endif  // SLICE_TESTS_SIM_MACHINE_H
