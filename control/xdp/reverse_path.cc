#include "control/xdp/reverse_path.h"

#include <algorithm>
#include <fstream>
#include <optional>

namespace slice::proxy {
namespace {

std::optional<int> setting(const std::string& settings, const std::string& interface, const char* name) {
  std::ifstream in(settings + "/" + interface + "/" + name);
  int value = 0;
  if (!(in >> value)) return std::nullopt;
  return value;
}

}  // namespace

std::string reverse_path_warnings(const std::vector<std::string>& interfaces, bool xdp,
                                  const std::string& settings) {
  std::string open, still;
  const int all = setting(settings, "all", "rp_filter").value_or(0);
  for (const std::string& one : interfaces) {
    // The larger of the two counts, and 2 (loose) lets in what comes from where any route leads back to.
    auto own = setting(settings, one, "rp_filter");
    int filter = std::max(own.value_or(1), all);
    if (own && filter != 1) open += " " + one + "=" + std::to_string(filter);
    if (xdp && setting(settings, one, "forwarding") == 0) still += " " + one;
  }
  std::string text = open.empty() ? "" : "rp_filter is not 1:" + open;
  if (!still.empty()) text += (text.empty() ? "" : "; ") + ("does not forward:" + still);
  return text;
}

std::string ipv6_warnings(const std::vector<std::string>& interfaces, const std::string& settings) {
  std::string still;
  for (const std::string& one : interfaces)
    if (setting(settings, one, "forwarding") == 0) still += " " + one;
  return still.empty() ? "" : "does not forward IPv6:" + still;
}

// The larger counts of the interface's and that of all. arp_ignore of 2 does too; above it the kernel answers
// for loopback addresses again, or for none.
std::string arp_warnings(const std::string& interface, const std::string& settings) {
  std::string text;
  const auto check = [&](const char* name, int wanted, int most) {
    const int is =
        std::max(setting(settings, interface, name).value_or(0), setting(settings, "all", name).value_or(0));
    if (is >= wanted && is <= most) return;
    text += (text.empty() ? "" : ", ") + std::string("net.ipv4.conf.") + interface + "." + name + " is " +
            std::to_string(is) + ", not " + std::to_string(wanted);
  };
  check("arp_ignore", 1, 2);
  check("arp_announce", 2, 2);
  return text;
}

}  // namespace slice::proxy
