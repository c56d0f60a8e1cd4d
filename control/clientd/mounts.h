// What of this host uses a proxy on it.
#ifndef SLICE_CONTROL_CLIENTD_MOUNTS_H
#define SLICE_CONTROL_CLIENTD_MOUNTS_H

#include <cstdint>
#include <string_view>

namespace slice::clientd {

// Whether a mount table, as /proc/PID/mountinfo has it (proc_pid_mountinfo(5)), has a mount of NFS from this
// port of the loopback interface.
bool has_mount(std::string_view mountinfo, std::uint16_t port);
// Whether a table of connections, as /proc/net/tcp has it, has one to this port that is open.
bool has_connection(std::string_view table, std::uint16_t port);
// Whether any process of the host has such a mount in its mount namespace, or the kernel has a connection, as
// for a mount that was taken away lazily.
bool in_use(std::uint16_t port);

}  // namespace slice::clientd

#endif  // SLICE_CONTROL_CLIENTD_MOUNTS_H
