#include "tests/bench/processes.h"

#include <unistd.h>

#include <fstream>
#include <sstream>

namespace slice::client {

std::map<std::string, int> pids_from(const std::string& text) {
  std::map<std::string, int> pids;
  std::istringstream list(text);
  for (std::string one; std::getline(list, one, ',');) {
    const std::size_t equals = one.find('=');
    pids[one.substr(0, equals)] = std::stoi(one.substr(equals + 1));
  }
  return pids;
}

double processor_seconds(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::size_t after_name = text.rfind(')');
  if (after_name == std::string::npos) return 0;
  std::istringstream fields(text.substr(after_name + 2));
  std::string skipped;
  for (int i = 3; i < 14; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::uint64_t memory_bytes(int pid, const std::string& line) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string text; std::getline(file, text);) {
    if (text.starts_with(line + ":")) return std::stoull(text.substr(line.size() + 1)) * 1024;
  }
  return 0;
}

}  // namespace slice::client
