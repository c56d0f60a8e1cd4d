// HostedServer: one server of a process, with everything around its protocol logic: data directory, manager
// session, tables, RPC server, admin program.
#ifndef SLICE_SERVICE_HOSTED_SERVER_H
#define SLICE_SERVICE_HOSTED_SERVER_H

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rpc/in_process.h"
#include "rpc/local_first.h"
#include "rpc/server.h"
#include "service/admin_program.h"
#include "service/backing/backed_disk.h"
#include "service/backing/fenced_program.h"
#include "service/crash_at.h"
#include "service/data_directory.h"
#include "service/manager_session.h"
#include "service/metrics_page.h"
#include "service/process.h"
#include "service/process_figures.h"
#include "service/traced_program.h"

namespace slice::service {

// What a process gives each of its servers.
struct Host {
  rpc::EpollLoop& loop;
  rpc::InProcessNetwork* local = nullptr;  // joins the process's servers; none: there is one server
  const EnsembleConfig& config;
  const rpc::KeyRing& keys;  // of sessions with other processes
  const std::optional<CrashAt>& crash_at;
  bool first = true;  // of the process's servers: its metrics have what is the process's own
  // The level of the log is the process's own: no settings change it.
  bool own_log_level = false;
  // This server is in another phase than before.
  std::function<void()> phase_changed;
  // Something that cannot be gone on with: the process ends with this exit code and this message.
  std::function<void(int, const std::string&)> end;
  // Another host serves this server: the process ends well, for this reason, and stands by after its restart.
  std::function<void(const std::string&)> stands_by;
  // This server serves no more, for this reason; the others of the process may go on.
  std::function<void(const std::string&)> left;
};

// What a server says that was removed.
std::string removed_text(std::string_view name);

inline constexpr int kExitClean = 0, kExitFailed = 1, kExitBadUsage = 2;

class HostedServer {
 public:
  enum class Phase { kStarting, kWaiting, kServing, kGone };  // kWaiting: for other servers, before it serves
  // `kind` and `self` outlive it.
  HostedServer(Host host, const ServerKind& kind, const ServerConfig& self);

  // Takes its data directory. kInvalid: that of another server.
  Status claim_data();
  // Starts the role, then serves: after claim_data(), when the loop is about to run.
  void begin();
  // For a clean stop; ends when the role has written back what it had to.
  Task<void> stop();
  // The valid keys are others.
  void keys_changed();
  // Role::read_files_again().
  void read_files_again();
  const LiveSettings& settings() const { return settings_; }
  bool is_manager() const { return self_.role == ServerRole::kManager; }
  const std::string& name() const { return self_.name; }
  Phase phase() const;
  // For operators: "serving", "waiting: " and for what, ...
  std::string state() const;
  // Of the manager: reads the settings again, and logs what came of it.
  void reload();

 private:
  Task<void> start();
  // Of a server with a backing set: makes what it needs; becomes the owner of the set.
  void make_backing();
  std::unique_ptr<storage::Disk> traced(std::unique_ptr<storage::Disk> disk);
  // Before it serves; empty: nothing.
  std::string waits_for() const;
  Task<Status> open_backing();
  std::function<void(rpc::Endpoint)> when_moved();
  void add_program(rpc::Program& program);
  // It is no member any more: stops, and serves nothing.
  Task<void> leave();
  AdminProgram::Hooks admin_hooks();
  rpc::Server::Options server_options();
  void settings_changed(const Settings& settings);
  void emulate_disk();
  void describe(wire::HeartbeatArgs& args);
  wire::AboutResult about();
  void refresh_gauges();
  Status serve_metrics();

  const Host host_;
  const ServerKind& kind_;
  const ServerConfig& self_;
  const routing::HandleCodec handles_;
  routing::TableHolder tables_;
  LiveSettings settings_;
  VerifierClock verifier_{Verifier{0}};
  Metrics metrics_;
  std::optional<ProcessFigures> process_figures_;
  Tracer tracer_;
  std::optional<DataDirectory> data_;
  std::unique_ptr<storage::Disk> local_disk_;  // the data directory
  std::optional<BackingSet> backing_;          // none: what it keeps is in the data directory
  std::unique_ptr<storage::Disk> backed_disk_;
  storage::Disk* disk_ = nullptr;  // where it keeps what it keeps
  rpc::SocketChannel sockets_;
  std::optional<rpc::InProcessNetwork> local_;
  std::optional<rpc::LocalFirst> local_first_;
  rpc::Channel* channel_;
  Managers managers_;  // for the backing set
  std::optional<ManagerSession> session_;
  CrashPoints crash_;  // without fault injection none kills
  std::optional<ServiceContext> context_;
  std::unique_ptr<Role> role_;
  std::optional<AdminProgram> admin_;
  std::vector<std::unique_ptr<rpc::Program>> programs_;
  std::optional<rpc::Dispatcher> dispatcher_;
  std::optional<rpc::Server> server_;
  std::optional<MetricsPage> metrics_page_;
  std::string state_was_;  // when it was told last, and since when it has been that
  MonoTime state_since_{};
  bool serving_ = false, stopping_ = false, removed_ = false, unfit_ = false;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_HOSTED_SERVER_H
