// What every server's main() does around its protocol logic: command line, configuration, log, data
// directory, manager session, RPC server, admin program, signals.
//
//   int main(int argc, char** argv) {
//     return slice::service::run_process(
//         {.about = "Slice storage node", .kinds = {slice::storagenode::server_kind()}}, argc, argv);
//   }
#ifndef SLICE_SERVICE_PROCESS_H
#define SLICE_SERVICE_PROCESS_H

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rpc/dispatcher.h"
#include "service/context.h"
#include "wire/admin.h"
#include "wire/manager.h"
#include "wire/settings.h"

namespace slice::service {

// A server's protocol logic. Made after the data directory is checked and, for a role that needs one, a
// verifier was drawn.
class Role {
 public:
  Role() = default;
  Role(const Role&) = delete;
  Role& operator=(const Role&) = delete;
  virtual ~Role() = default;
  // Recovers from the data directory: nothing is served before it ends. An error ends the process with its
  // message.
  virtual Task<Status> start() = 0;
  // The programs it serves; valid as long as the role.
  virtual std::vector<rpc::Program*> programs() = 0;
  // For a clean stop (SIGTERM): whatever would be lost or slow otherwise; at most 5 s.
  virtual Task<void> stop() = 0;
  // "serving", "read-only: no space", ...: for slicectl status.
  virtual std::string state() const = 0;
  // A line of its own for slicectl status, e.g. a proxy's XDP mode; at most 255 bytes.
  virtual std::string detail() const { return ""; }
  // Of a directory server: how many objects its sites have, as far as it has counted them.
  virtual std::uint64_t objects() const { return 0; }
  // Sets the metrics that something else counts; called before each reading of them.
  virtual void refresh_gauges() {}
  // Others than those that the server started with, or had before, are in force (ServiceContext::settings).
  virtual void settings_changed() {}
  // RELOAD (wire/settings.h). Of the manager's role alone: it publishes settings.
  virtual Task<wire::ReloadResult> reload();
  // SIGHUP: files that it has beside its configuration may have other contents.
  virtual void read_files_again() {}
  // A server reports that a request came to it that is another's; proxies alone are told.
  virtual void misdirected(const wire::MisdirectedArgs& /*report*/) {}
};

using MakeRole = std::function<std::unique_ptr<Role>(ServiceContext&)>;

// What a program can be.
struct ServerKind {
  ServerRole role = ServerRole::kDirectory;
  bool draws_verifier = false;  // data servers: waits for the manager at start
  MakeRole make;
  // Tables of a run before, of which anybody may have changed entries by hand, for a start without the
  // manager's; none: the role has none.
  std::function<std::optional<wire::Tables>(const EnsembleConfig&)> hints = nullptr;
};

struct ProcessOptions {
  std::string about;              // of --help
  std::vector<ServerKind> kinds;  // at least one
};

// SIGHUP: reads the session keys and certificates again; has the manager, where it is here, read the settings
// again, and says elsewhere what of the file was changed, and is the manager's to read or counts at a start
// only.
//
// Flags: --config FILE --name NAME... [--log-level LEVEL] [--log-format FORMAT] [--version]. Checks, in
// order: configuration, roles, data directories (service/data_directory.h: exists or can be made, of this
// server, locked; a role without one gets a Disk in memory), free space (below the reserve it starts all the
// same, since what is stored must be readable: it says so, and changes are refused by the role); then each
// server takes tables and, where its role draws one, a verifier, makes and starts the role, and serves its
// programs and the admin program until SIGTERM or SIGINT. Servers that share a process run on one loop, each
// at its own endpoint, and call each other without sockets; where one fails, the process ends. The
// environment may ask for a death at a crash point (service/crash_at.h); it names who is to be told how the
// process is (service/notify.h). A server does not listen before its role has started. Exit codes: 0 clean
// stop, 1 failed at start or while serving, 2 bad usage, configuration, or a data directory of another
// server.
int run_process(const ProcessOptions& options, int argc, char** argv);

}  // namespace slice::service

#endif  // SLICE_SERVICE_PROCESS_H
