// What this host says of itself, as far as an ensemble needs it: what `slicectl doctor` judges by
// (control/slicectl/doctor.h). Reads /proc and the file system, and asks the kernel; changes nothing.
#ifndef SLICE_CONTROL_SLICECTL_HOST_FACTS_H
#define SLICE_CONTROL_SLICECTL_HOST_FACTS_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/config.h"

namespace slice::slicectl {

// A file, or a folder.
struct FileFacts {
  bool there = false;
  std::uint32_t mode = 0;  // permission bits
  std::string owner;       // name, or number where it has none
};

struct FolderFacts {
  FileFacts file;
  bool is_folder = false;
  std::string file_system;  // "ext4", ...; "" where it is none of those known here
  std::uint64_t free_bytes = 0, total_bytes = 0;
};

// A socket that waits for calls.
struct Listener {
  bool tcp = true;    // else UDP
  IpAddress address;  // 0: any
  std::uint16_t port = 0;
  std::string program;  // its name, up to 15 letters; "" where no process that can be seen has it
};

struct HostFacts {
  std::string kernel;                          // release: "6.1.0-18-amd64"
  std::map<IpAddress, std::string> addresses;  // and the interface of each
  std::vector<std::string> interfaces;         // up, with an address not of its link alone, no loopback
  std::map<std::string, std::uint64_t>
      settings;                            // of /proc/sys/net, as "net.core.rmem_max"; of those there are
  std::string reverse_path;                // proxy::reverse_path_warnings() of the proxy's interfaces
  std::string arp;                         // proxy::arp_warnings() of the proxy's address_interface
  std::optional<std::string> xdp_refused;  // why this process may not load an XDP program; none: it may
  std::map<std::string, bool> native_xdp;  // whether an interface's driver takes it; of those that tell
  FileFacts key_file;
  std::map<std::string, FolderFacts> data;  // by server, of those of this host
  std::vector<Listener> listeners;
};

// As `config` asks for them. Of a proxy the interfaces that [proxy] names, or all.
HostFacts look_at_host(const EnsembleConfig& config);

// The servers of `config` that are at an address of this host.
std::vector<const ServerConfig*> servers_of(const EnsembleConfig& config, const HostFacts& host);

// Lines of /proc/net/tcp, udp, tcp6 or udp6; `inode` tells whose a socket is. Lines that are none are left
// out.
struct SocketLine {
  IpAddress address;
  std::uint16_t port = 0;
  std::uint64_t inode = 0;
  bool listens = false;  // of TCP
};
std::vector<SocketLine> parse_sockets(const std::string& text);

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_HOST_FACTS_H
