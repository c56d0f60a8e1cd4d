#include "control/clientd/kept_routes.h"

#include <fstream>

#include "common/whole_file.h"

namespace slice::clientd {
namespace {

// Of 65,536 sites of each class, and as many servers.
constexpr std::size_t kMostBytes = 2 << 20;

}  // namespace

Status keep_routes(const std::filesystem::path& file, const wire::Routes& routes) {
  rpc::XdrWriter bytes;
  encode(bytes, routes);
  std::filesystem::path fresh = file;
  fresh += ".new";
  std::ofstream out(fresh, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.view().data()), static_cast<std::streamsize>(bytes.size()));
  out.close();
  std::error_code failed;
  if (out) std::filesystem::rename(fresh, file, failed);
  if (!out || failed) return fail(Errc::kIo, "cannot write {}", file.string());
  return {};
}

Result<wire::Routes> kept_routes(const std::filesystem::path& file) {
  auto read = read_whole_file(file.string(), kMostBytes);
  if (!read) return fail(std::move(read).error());
  wire::Routes routes;
  if (!decode(as_bytes(read->bytes), routes) || !routes.changed)
    return fail(Errc::kCorrupt, "{} has no routes", file.string());
  return routes;
}

}  // namespace slice::clientd
