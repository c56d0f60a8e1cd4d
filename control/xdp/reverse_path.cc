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

}  // namespace slice::proxy
