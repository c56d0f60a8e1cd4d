#include "control/manager/configuration.h"

#include <utility>

#include "common/log.h"
#include "common/version.h"
#include "common/whole_file.h"

namespace slice::manager {
namespace {

Result<std::string> readable_text(const std::string& path) {
  auto file = read_whole_file(path, wire::kMaxConfigurationText);
  if (!file) return fail(file.error(), path);
  auto read = parse_ensemble(file->bytes, path);
  if (!read) return fail(std::move(read).error());
  return std::move(file->bytes);
}

}  // namespace

wire::ConfigurationResult give_configuration(const EnsembleConfig& config, WallTime now) {
  wire::ConfigurationResult result{.refused = {}, .version = kVersion, .now_ns = 0, .text = {}};
  result.now_ns = static_cast<std::uint64_t>(now.ns);
  auto text = readable_text(config.path);
  if (text) {
    result.text = std::move(*text);
  } else {
    log_warning("a host asked for the configuration, and is refused it: {}", text.error().message);
    result.refused = text.error().message;
  }
  return result;
}

}  // namespace slice::manager
