#include "storage/log_copy.h"

#include <fmt/core.h>
#include <stdlib.h>

#include <filesystem>
#include <utility>

#include "storage/posix_disk.h"

namespace slice::storage {

Result<std::unique_ptr<LogCopy>> LogCopy::make(Loop& loop, const std::string& folder,
                                               const std::string& name) {
  std::error_code error;
  std::string place = (std::filesystem::temp_directory_path(error) / "slice-fsck-XXXXXX").string();
  if (error || ::mkdtemp(place.data()) == nullptr) return fail(Errc::kIo, "no temporary folder can be made");
  auto copy = std::make_unique<LogCopy>(place);
  for (const std::string& each : {name, name + ".end"}) {
    const std::string from = fmt::format("{}/{}", folder, each);
    if (!std::filesystem::exists(from, error)) continue;
    const std::string to = fmt::format("{}/{}", place, each);
    std::filesystem::copy(from, to, std::filesystem::copy_options::recursive, error);
    if (error) return fail(Errc::kIo, "{} cannot be copied to {}: {}", from, place, error.message());
  }
  auto disk = PosixDisk::open(loop, place);
  if (!disk) return fail(std::move(disk).error());
  copy->disk_ = std::move(*disk);
  return copy;
}

LogCopy::~LogCopy() {
  disk_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(place_, ignored);
}

}  // namespace slice::storage
