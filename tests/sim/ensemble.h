// SimEnsemble: all servers of an ensemble in one process, on simulated time, network and disks. Processes
// die, at times that the seed says and at named crash points, keep what was durable, and come back after a
// while.
#ifndef SLICE_TESTS_SIM_ENSEMBLE_H
#define SLICE_TESTS_SIM_ENSEMBLE_H

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/manual_loop.h"
#include "common/settings.h"
#include "control/manager/testing/memory_registry.h"
#include "service/process.h"
#include "storage/memory_disk.h"
#include "storage/memory_store.h"
#include "tests/sim/broken_fencing.h"
#include "tests/sim/network.h"
#include "tests/sim/streams.h"

namespace slice::sim {

struct EnsembleOptions {
  std::uint64_t seed = 1;
  unsigned directory_servers = 1;
  VolumeConfig::NamePolicy policy = VolumeConfig::NamePolicy::kMkdirSwitching;
  std::optional<double> mkdir_probability = 0.5;
  unsigned storage_nodes = 2;
  unsigned later = 0;                      // more of them, which are there when they come()
  unsigned copies = 1;                     // of new files
  Placement placement = Placement::kHash;  // of their stripes
  unsigned proxies = 0;                    // that clients call; none: they find servers by the tables
  unsigned coordinators = 1;
  // Copies of what directory servers, small-file servers and coordinators keep, at storage nodes; each has a
  // second host then, where a process of it stands by. 0: they keep it on their own disks. With managers and
  // proxies alone.
  unsigned backing = 0;
  BrokenFencing broken = BrokenFencing::kNot;
  // Processes like others; several share their state, and one leads. None: verifiers come from nowhere, and
  // tables never change.
  unsigned managers = 0;
  bool quotas = false;  // the clients' user and group have some, far away, so that usage is counted
  // Sites are moved while clients use them: few, so that each has bytes or files; of small files and of
  // coordinators between several servers.
  bool moves = false;
  bool disk_errors = false;                     // storage nodes' disks fail for a while in storms
  ServerRole victims = ServerRole::kDirectory;  // whose processes die most
  std::string dangerous;  // the one crash point where processes die; empty: as the seed has it
};
EnsembleConfig make_config(const EnsembleOptions& options);
// Backing sets of two copies, and all that is needed for that.
void give_standbys(EnsembleOptions& options);

// How often the processes came to each crash point, and died there.
struct PointCount {
  unsigned reached = 0, died = 0;
};
using PointCounts = std::map<std::string, PointCount, std::less<>>;

class SimEnsemble {
 public:
  SimEnsemble(const EnsembleOptions& options, Trace::Print print = nullptr);
  ~SimEnsemble();
  SimEnsemble(const SimEnsemble&) = delete;
  SimEnsemble& operator=(const SimEnsemble&) = delete;

  // Lets every process start. False, with failure(), where one does not.
  bool start();
  // From now on until calm(): faults of the network as the seed has it, and at most `crashes` processes die:
  // at crash points, and at random within `soon`.
  void storm(Duration soon, unsigned crashes);
  // Ends a storm: the network is whole, nothing dies, all processes come back.
  void calm();
  // A storage node that is no member from the beginning, and is one now, starts.
  void come(std::uint32_t server);
  // Those that have not come yet.
  std::vector<std::uint32_t> to_come() const;
  // It dies now, with its disk, and never comes back.
  void lose(std::uint32_t server);
  // But those that are lost or removed, or have not come yet; of a server with two hosts, one does.
  bool all_serving() const;
  // What a process complained about: empty as long as all is well.
  const std::string& failure() const { return failure_; }

  ManualLoop& loop() { return loop_; }
  SimNetwork& network() { return network_; }
  SimStreams& streams() { return streams_; }
  Trace& trace() { return trace_; }
  Random& random() { return random_; }
  const EnsembleConfig& config() const { return config_; }
  const routing::HandleCodec& handles() const { return handles_; }
  const routing::RoutingTables& tables() const { return *tables_; }
  const PointCounts& points() const { return points_; }
  unsigned kills() const { return kills_; }
  unsigned proxies() const { return proxies_; }
  unsigned disk_errors() const { return disk_errors_so_far_; }
  // How often bytes that are not durable may have been lost so far: by deaths, and by disks.
  unsigned losses() const { return kills_ + disk_errors_so_far_; }
  bool has_proxies() const { return proxies_ > 0; }
  // Where a client finds the virtual address now: at a proxy that serves, where any does.
  rpc::Endpoint any_proxy(Random& random) const;
  // Where a server is served; where it is not, its first host.
  rpc::Endpoint endpoint_of(std::uint32_t server) const;
  // What a storage node has of a file, as its disk has it.
  Task<std::optional<std::string>> object_bytes(std::uint32_t server, FileId file, std::uint64_t offset,
                                                std::size_t count);
  // Where a small-file server has something of a site that is not its own by these tables, or anything of one
  // of these files; empty: nowhere.
  std::string small_files_left(const routing::RoutingTables& tables, const std::vector<FileId>& removed);
  // What coordinators have of sites that are another's by these tables, or owe anybody; empty: nothing.
  std::string left_at_coordinators(const routing::RoutingTables& tables) const;
  // Copies that miss something, by what coordinators have noted; empty: all are whole.
  std::string missed_by_copies() const;
  // Where a directory server counts another usage than it has stored; empty: nowhere.
  std::string miscounted_usage() const;
  // What the directory servers have in their stores, durable or not.
  std::vector<const storage::KvStore*> directory_stores() const;

 private:
  struct Machine;
  class Process;
  class Draws;

  Machine& machine(std::uint32_t server);
  void add_machine(const ServerConfig& server, std::string name);
  // Where the server is served; null: nowhere.
  Machine* serving_machine(std::uint32_t server) const;
  std::vector<const ServerConfig*> servers_of(ServerRole role) const;
  void boot(Machine& machine);
  void kill(Machine& machine, std::string_view why);
  // As the process of a server that was removed from the ensemble ends, for good.
  void end(Machine& machine);
  bool dies_at(Machine& machine, std::string_view point);
  Machine& any_machine();
  void schedule_kill(Duration within);
  void schedule_cut(Duration within);
  void schedule_stop(Duration within);
  void schedule_end(Duration within);
  void schedule_clock(Duration within);
  void schedule_silence(Duration within);
  void schedule_disk_errors(Duration within);
  void let_disk_fail(Machine& machine);
  bool has_manager() const { return managers_count_ > 0; }
  bool shares_state(const Machine& machine) const;
  manager::testing::MemoryRegistry::Fault draw_registry_fault(const Machine& machine);

  const unsigned proxies_;
  const unsigned managers_count_;
  const bool disk_errors_, moves_;
  const unsigned backing_;
  const bool manager_forgets_;  // where its process dies its disk may be lost, too
  const BrokenFencing broken_;
  const ServerRole victims_;
  const std::string dangerous_;
  EnsembleConfig config_;        // with all that come later
  EnsembleConfig birth_config_;  // the manager's: without them
  Settings settings_;            // of every process
  Random random_;
  ManualLoop loop_;
  Trace trace_;
  SimNetwork network_;
  SimStreams streams_;
  manager::testing::MemoryRegistry::Shared registry_;  // of several managers
  routing::HandleCodec handles_;
  std::shared_ptr<const routing::RoutingTables> tables_;
  SimNetwork::Faults faults_;
  std::uint64_t next_verifier_ = 0, runs_ = 0;
  std::uint64_t hot_points_ = 0;  // seeds which crash points are dangerous in this storm
  unsigned crashes_left_ = 0;
  unsigned kills_ = 0, disk_errors_so_far_ = 0;
  std::uint64_t storms_ = 0;  // number of the storm, for what was planned for an earlier one
  bool stormy_ = false;
  PointCounts points_;
  std::string failure_;
  std::unique_ptr<Draws> draws_;  // where there is no manager
  std::vector<std::unique_ptr<Machine>> machines_;
  std::vector<std::unique_ptr<Process>> dead_;  // kept: what they hold is never freed, as they never ran on
};

}  // namespace slice::sim

#endif  // SLICE_TESTS_SIM_ENSEMBLE_H
