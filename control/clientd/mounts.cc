#include "control/clientd/mounts.h"

#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace slice::clientd {
namespace {

std::string contents(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// Whether the comma-separated options have this one.
bool has_option(std::string_view options, std::string_view option) {
  while (!options.empty()) {
    const std::size_t comma = options.find(',');
    if (options.substr(0, comma) == option) return true;
    if (comma == std::string_view::npos) return false;
    options.remove_prefix(comma + 1);
  }
  return false;
}

template <class Line>
bool any_line(std::string_view text, Line of_interest) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (of_interest(text.substr(0, end))) return true;
    if (end == std::string_view::npos) return false;
    text.remove_prefix(end + 1);
  }
  return false;
}

// The last word of what is behind " - nfs ".
std::string_view nfs_options(std::string_view line) {
  constexpr std::string_view kType = " - nfs ";
  const std::size_t at = line.find(kType);
  if (at == std::string_view::npos) return {};
  const std::size_t last = line.rfind(' ');
  return last < at + kType.size() ? std::string_view{} : line.substr(last + 1);
}

}  // namespace

bool has_mount(std::string_view mountinfo, std::uint16_t port) {
  return any_line(mountinfo, [wanted = fmt::format("port={}", port)](std::string_view line) {
    const std::string_view options = nfs_options(line);
    return has_option(options, wanted) && has_option(options, "addr=127.0.0.1");
  });
}

// "  0: 0100007F:9C41 0100007F:03E8 01 ...": number, local address, remote address, state.
bool has_connection(std::string_view table, std::uint16_t port) {
  return any_line(table, [to = fmt::format(" 0100007F:{:04X} ", port)](std::string_view line) {
    const std::size_t at = line.find(to);
    constexpr std::size_t kStateAt = 14, kStateSize = 2;  // behind the remote address
    return at < 8 && line.size() >= at + to.size() + kStateAt + kStateSize &&
           line.substr(at + to.size() + kStateAt, kStateSize) == "01";
  });
}

bool in_use(std::uint16_t port) {
  if (has_connection(contents("/proc/net/tcp"), port)) return true;
  std::set<std::string> seen;  // mount namespaces
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto of = std::filesystem::read_symlink(entry.path() / "ns/mnt", error);
    if (!error && !seen.insert(of).second) continue;
    if (has_mount(contents(entry.path() / "mountinfo"), port)) return true;
  }
  return false;
}

}  // namespace slice::clientd
