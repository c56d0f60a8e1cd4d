// slice-clientd: a proxy on a client's own host; under the name mount.slice, what mount(8) calls.
#include <filesystem>

#include "cli/command_line.h"
#include "common/log.h"
#include "control/clientd/daemon.h"
#include "control/clientd/mount_helper.h"
#include "proxy/front/listener_guard.h"
#include "service/notify.h"

namespace slice::clientd {
namespace {

constexpr int kBadUsage = 2;

int main(int argc, char** argv) {
  if (auto code = proxy::run_guard(argc, argv)) return *code;
  if (std::filesystem::path(argv[0]).filename() == "mount.slice") return mount_slice(argc, argv);
  DaemonOptions options;
  std::string server, metrics;
  cli::Program app(
      "slice-clientd: on a client's host, sends each request of its mounts to the server that has it");
  app.add_option("server", server, "the virtual server: ADDRESS[:PORT[:MOUNTPORT]]").required();
  app.add_option("--threads", options.threads, "that pass requests on").in_range(1, 64).capture_default();
  app.add_option("--folder", options.folder,
                 "where it keeps its port, and log, until the host is booted again")
      .capture_default();
  app.add_option("--metrics", metrics, "ADDRESS:PORT of a page for Prometheus (docs/metrics.md)");
  app.footer(
      "mount -t slice SERVER:/PATH FOLDER starts it, and it ends by itself when nothing is mounted from it.\n"
      "Exit codes: 0 ended; 1 failed, or one runs already; 2 wrong usage.");
  if (const auto code = app.parse(argc, argv)) return *code;
  configure_log("slice-clientd", LogLevel::kInfo);
  auto parsed = parse_server(server);
  if (!parsed) {
    log_error("{}", parsed.error().message);
    return kBadUsage;
  }
  options.server = *parsed;
  if (!metrics.empty()) {
    auto at = rpc::parse_endpoint(metrics);
    if (!at) {
      log_error("{}", at.error().message);
      return kBadUsage;
    }
    options.metrics = *at;
  }
  auto notify = service::Notify::from_environment();
  return serve(options, [&notify] { notify.ready(); });
}

}  // namespace
}  // namespace slice::clientd

int main(int argc, char** argv) {
  return slice::clientd::main(argc, argv);
}
