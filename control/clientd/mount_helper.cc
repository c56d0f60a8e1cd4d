#include "control/clientd/mount_helper.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "common/log.h"
#include "control/clientd/daemon.h"
#include "control/clientd/mount_words.h"
#include "rpc/bound_socket.h"

namespace slice::clientd {
namespace {

using namespace std::chrono_literals;

constexpr int kUsage = 1, kFailed = 32;  // mount(8), "EXIT STATUS"
constexpr int kNoSuchUnit = 5;           // of systemctl
constexpr auto kStarting = 40s;          // longer than the proxy's own

// The exit code; 127 where it cannot be run.
int run(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::execvp(words[0], words.data());
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 127;
}

// The one that this host would go to first (RFC 6724).
Result<IpAddress> resolve(const std::string& host, std::optional<bool> v6) {
  const int family = !v6 ? AF_UNSPEC : *v6 ? AF_INET6 : AF_INET;
  const addrinfo wanted{.ai_flags = 0, .ai_family = family, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), nullptr, &wanted, &found); error != 0)
    return fail(Errc::kInvalid, "{}: {}", host, ::gai_strerror(error));
  const IpAddress result = rpc::endpoint_of(found->ai_addr, found->ai_addrlen).address;
  ::freeaddrinfo(found);
  return result;
}

bool listens(std::uint16_t port) {
  const rpc::SocketAddress at({kLoopback, port});
  const int fd = rpc::socket_for(kLoopback, SOCK_STREAM);
  const bool connected = ::connect(fd, at.get(), at.length()) == 0;
  ::close(fd);
  return connected;
}

// One that another call has just started may not listen yet.
bool wait_for(const Place& place, std::uint16_t port) {
  const auto until = std::chrono::steady_clock::now() + kStarting;
  while (place.is_served() && std::chrono::steady_clock::now() < until) {
    if (listens(port)) return true;
    std::this_thread::sleep_for(50ms);
  }
  return false;
}

// Brackets are not for names of units (systemd.unit(5), "String escaping for inclusion in unit names").
std::string unit_of(const Server& server) {
  std::string instance;
  for (const char each : to_string(server)) {
    if (each == '[' || each == ']') {
      instance += fmt::format("\\x{:02x}", static_cast<unsigned char>(each));
    } else {
      instance += each;
    }
  }
  return fmt::format("slice-client@{}.service", instance);
}

Status start(const DaemonOptions& options) {
  if (::access("/run/systemd/system", F_OK) == 0) {
    const std::string unit = unit_of(options.server);
    const int code = run({"systemctl", "start", "--quiet", unit});
    if (code == 0) return {};
    if (code != kNoSuchUnit && code != 127)
      return fail(Errc::kUnavailable, "the proxy on this host does not start: see journalctl -u {}", unit);
  }
  return serve_detached(options);
}

Status mount(const std::vector<std::string>& said) {
  auto parsed = parse_mount(said);
  if (!parsed) return fail(std::move(parsed).error());
  if (::geteuid() != 0) return fail(Errc::kInvalid, "only root can mount");
  MountWords words = std::move(*parsed);
  auto address = resolve(words.host, words.v6);
  if (!address) return fail(std::move(address).error());
  words.server.address = *address;
  const DaemonOptions options{.server = words.server};
  auto place = Place::open(options.folder, options.server);
  if (!place) return fail(std::move(place).error());
  auto mounting = place->mounting();
  if (!mounting) return fail(std::move(mounting).error());
  auto port = place->port();
  if (!port) return fail(std::move(port).error());
  if (!wait_for(*place, *port)) SLICE_RETURN_IF_ERROR(start(options));
  if (run(mount_command(words, *port)) == 0) return {};
  return fail(Errc::kIo, "mounting from the proxy on this host failed");
}

}  // namespace

int mount_slice(int argc, char** argv) {
  configure_log("mount.slice", LogLevel::kWarning);
  const std::vector<std::string> words(argv + 1, argv + argc);
  const Status mounted = mount(words);
  if (mounted) return 0;
  std::fprintf(stderr, "mount.slice: %s\n", mounted.error().message.c_str());
  return mounted.error().code == Errc::kInvalid ? kUsage : kFailed;
}

}  // namespace slice::clientd
