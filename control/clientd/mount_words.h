// The words of mount.slice, which mount(8) calls for file systems of type slice, and what becomes of them: a
// mount of NFS from the proxy on this host.
#ifndef SLICE_CONTROL_CLIENTD_MOUNT_WORDS_H
#define SLICE_CONTROL_CLIENTD_MOUNT_WORDS_H

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "control/clientd/client_proxy.h"

namespace slice::clientd {

struct MountWords {
  std::string host;  // name or address of the virtual server
  std::string path;
  std::string folder;
  Server server;                     // its ports alone
  std::optional<bool> v6;            // the family that proto= or mountproto= wants; none: either
  std::vector<std::string> flags;    // for mount(8), as they came
  std::vector<std::string> options;  // likewise, behind what this one adds
};

// `words`: all but the program's name. kInvalid, with the cure, where they cannot be kept: without TCP,
// version 3 of NFS and `nolock` there is no such mount.
Result<MountWords> parse_mount(std::span<const std::string> words);
// The command that mounts it from the proxy at this port of the loopback interface.
std::vector<std::string> mount_command(const MountWords& words, std::uint16_t port);

}  // namespace slice::clientd

#endif  // SLICE_CONTROL_CLIENTD_MOUNT_WORDS_H
