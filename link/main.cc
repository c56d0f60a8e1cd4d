// slice-link: serves raw volumes that it has over the link to block clients (docs/raw-volumes.md).
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "block/front_options.h"
#include "cli/command_line.h"
#include "common/log.h"
#include "link/daemon.h"
#include "link/frame.h"

namespace slice::link {
namespace {

constexpr int kBadUsage = 2;

struct Words {
  std::string udp, target;
};

std::string host_name() {
  char name[kMostName + 1] = {};
  if (::gethostname(name, kMostName) != 0 || name[0] == 0) return "slice-link";
  return name;
}

Status take_target(const Words& words, DaemonOptions& out) {
  if (words.udp.empty() == out.interface.empty())
    return fail(Errc::kInvalid, "the target is --udp ADDRESS[:PORT], or --interface with --target");
  if (!words.udp.empty()) {
    auto at = block::parse_place(words.udp, kLinkPort);
    if (!at) return fail(std::move(at.error()));
    out.udp = *at;
    return {};
  }
  auto target = parse_hardware_address(words.target);
  if (!target) return fail(target.error(), "--target");
  out.target = *target;
  return {};
}

Status take_words(const Words& words, const block::FrontWords& front, DaemonOptions& out) {
  SLICE_RETURN_IF_ERROR(take_target(words, out));
  auto taken = front.take();
  if (!taken) return fail(std::move(taken.error()));
  out.front = std::move(*taken);
  if (out.front.listen.empty() && out.front.paths.empty())
    return fail(Errc::kInvalid, "nothing to serve at: --listen ADDRESS, or --unix PATH");
  if (out.client.empty() || out.client.size() > kMostName)
    return fail(Errc::kInvalid, "--client: a name of 1 to {} letters", kMostName);
  return {};
}

int main(int argc, char** argv) {
  Words words;
  DaemonOptions options;
  options.client = host_name();
  cli::Program app(
      "slice-link: serves raw volumes that a slice-blockd has to block clients of this host, by NBD");
  app.add_option("--key", options.key, "file of the key that slice-blockd has as --link-key").required();
  app.add_option("--udp", words.udp,
                 "ADDRESS[:PORT] of slice-blockd's --link-udp; port 10810 where none is said");
  app.add_option("--interface", options.interface,
                 "by Ethernet frames, on this one; needs CAP_NET_RAW, and --target");
  app.add_option("--target", words.target, "Ethernet address of slice-blockd's --link-interface");
  app.add_option(
      "--client", options.client,
      "as which slice-blockd knows this host, else by its name: who comes by the same one ends its "
      "sessions");
  block::FrontWords front(app, "slice-blockd");
  front.add_spin(app);
  app.footer(
      "SIGHUP: reads the key again, and lets volumes be used that were taken away.\n"
      "Exit codes: 0 ended by SIGTERM or SIGINT; 1 failed; 2 wrong usage.");
  if (const auto code = app.parse(argc, argv)) return *code;
  configure_log("slice-link", LogLevel::kInfo);
  auto notify = service::Notify::from_environment();
  if (Status taken = take_words(words, front, options); !taken) {
    log_error("{}", taken.error().message);
    return kBadUsage;
  }
  std::_Exit(serve(options, notify));
}

}  // namespace
}  // namespace slice::link

int main(int argc, char** argv) {
  return slice::link::main(argc, argv);
}
