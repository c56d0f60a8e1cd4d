#include "control/slicectl/host_facts.h"

#include <linux/magic.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <utility>

#include "common/whole_file.h"
#include "control/slicectl/xdp_support.h"
#include "control/xdp/reverse_path.h"
#include "rpc/interface_addresses.h"

namespace slice::slicectl {
namespace {

namespace fs = std::filesystem;

// Empty where it cannot be read.
std::string content_of(const std::string& path) {
  constexpr std::size_t kMost = 64 << 20;  // bytes
  auto file = read_whole_file(path, kMost);
  return file ? std::move(file->bytes) : "";
}

std::string user_name(uid_t uid) {
  std::array<char, 4096> room{};
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(uid, &entry, room.data(), room.size(), &found) == 0 && found != nullptr)
    return entry.pw_name;
  return std::to_string(uid);
}

FileFacts facts_of(const std::string& path) {
  struct stat found{};
  if (::stat(path.c_str(), &found) != 0) return {};
  return {.there = true, .mode = found.st_mode & 07777, .owner = user_name(found.st_uid)};
}

std::string file_system_name(long type) {
  // linux/magic.h has not all of them.
  constexpr long kXfs = 0x58465342, kZfs = 0x2fc12fc1;
  switch (type) {
    case EXT4_SUPER_MAGIC:
      return "ext4";
    case kXfs:
      return "xfs";
    case BTRFS_SUPER_MAGIC:
      return "btrfs";
    case kZfs:
      return "zfs";
    case TMPFS_MAGIC:
      return "tmpfs";
    case NFS_SUPER_MAGIC:
      return "nfs";
    case OVERLAYFS_SUPER_MAGIC:
      return "overlay";
    default:
      return "";
  }
}

FolderFacts folder_facts(const std::string& path) {
  FolderFacts facts{.file = facts_of(path)};
  if (!facts.file.there) return facts;
  std::error_code error;
  facts.is_folder = fs::is_directory(path, error);
  struct statfs found{};
  if (::statfs(path.c_str(), &found) != 0) return facts;
  facts.file_system = file_system_name(static_cast<long>(found.f_type));
  const auto block = static_cast<std::uint64_t>(found.f_bsize);
  facts.free_bytes = found.f_bavail * block;
  facts.total_bytes = found.f_blocks * block;
  return facts;
}

void look_at_addresses(HostFacts& facts) {
  std::set<std::string> usual;
  for (rpc::InterfaceAddress& each : rpc::interface_addresses()) {
    if (each.up && !each.loopback && each.address.is_host()) usual.insert(each.interface);
    facts.addresses[each.address] = std::move(each.interface);
  }
  facts.interfaces.assign(usual.begin(), usual.end());
}

void look_at_settings(HostFacts& facts) {
  for (const char* name : {"net.core.rmem_max", "net.core.wmem_max", "net.ipv4.ip_forward"}) {
    std::string path = std::string("/proc/sys/") + name;
    std::replace(path.begin(), path.end(), '.', '/');
    std::ifstream in(path);
    std::uint64_t value = 0;
    if (in >> value) facts.settings[name] = value;
  }
}

// The number behind "socket:[", where a link leads to a socket.
std::optional<std::uint64_t> socket_inode(const fs::path& link) {
  std::error_code error;
  const std::string target = fs::read_symlink(link, error).string();
  constexpr std::string_view kBeginning = "socket:[";
  if (error || !target.starts_with(kBeginning)) return std::nullopt;
  std::uint64_t inode = 0;
  const char* first = target.data() + kBeginning.size();
  if (std::from_chars(first, target.data() + target.size(), inode).ec != std::errc()) return std::nullopt;
  return inode;
}

// Of processes whose descriptors this one may see. The first that has it: a proxy before its slice-guard.
std::map<std::uint64_t, std::string> programs_by_socket() {
  std::map<std::uint64_t, std::string> programs;
  std::error_code error;
  for (const fs::directory_entry& process : fs::directory_iterator("/proc", error)) {
    if (process.path().filename().string().find_first_not_of("0123456789") != std::string::npos) continue;
    std::string name = content_of(process.path() / "comm");
    while (!name.empty() && name.back() == '\n') name.pop_back();
    std::error_code unseen;
    for (const fs::directory_entry& each : fs::directory_iterator(process.path() / "fd", unseen)) {
      if (auto inode = socket_inode(each.path())) programs.emplace(*inode, name);
    }
  }
  return programs;
}

void look_at_listeners(HostFacts& facts) {
  const auto programs = programs_by_socket();
  for (const bool tcp : {true, false}) {
    for (const char* version : {"", "6"}) {
      for (const SocketLine& each :
           parse_sockets(content_of(std::string("/proc/net/") + (tcp ? "tcp" : "udp") + version))) {
        if (tcp && !each.listens) continue;
        const auto program = programs.find(each.inode);
        facts.listeners.push_back({.tcp = tcp,
                                   .address = each.address,
                                   .port = each.port,
                                   .program = program == programs.end() ? "" : program->second});
      }
    }
  }
}

// Of IPv4 8 digits, of IPv6 32: each 8 are four bytes of it, as this machine has them as a number.
std::optional<IpAddress> address_of_digits(std::string_view text) {
  constexpr std::size_t kDigits = 8;
  std::array<std::uint32_t, 4> words{};
  const std::size_t count = text.size() / kDigits;
  if (text.size() % kDigits != 0 || (count != 1 && count != words.size())) return std::nullopt;
  for (std::size_t i = 0; i < count; ++i) {
    const char* at = text.data() + i * kDigits;
    if (std::from_chars(at, at + kDigits, words[i], 16).ptr != at + kDigits) return std::nullopt;
  }
  if (count == 1) return ntohl(words[0]);
  return IpAddress::of_bytes(words.data(), sizeof words);
}

}  // namespace

std::vector<SocketLine> parse_sockets(const std::string& text) {
  std::vector<SocketLine> sockets;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    // "0: 0100007F:0CEA 00000000:0000 0A ... uid timeout inode"; an address is as the machine has it in
    // memory.
    std::istringstream words(line);
    std::string number, local, remote, state, queues, timer, retransmits, uid, timeout;
    SocketLine socket;
    if (!(words >> number >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >>
          socket.inode))
      continue;
    const std::size_t colon = local.find(':');
    if (colon == std::string::npos) continue;
    const auto address = address_of_digits(std::string_view(local).substr(0, colon));
    if (!address) continue;
    const char* port = local.data() + colon + 1;
    if (std::from_chars(port, local.data() + local.size(), socket.port, 16).ec != std::errc()) continue;
    socket.address = *address;
    socket.listens = state == "0A";
    sockets.push_back(socket);
  }
  return sockets;
}

std::vector<const ServerConfig*> servers_of(const EnsembleConfig& config, const HostFacts& host) {
  std::vector<const ServerConfig*> own;
  for (const ServerConfig& each : config.servers) {
    if (each.role != ServerRole::kRemoved && host.addresses.contains(each.address)) own.push_back(&each);
  }
  return own;
}

HostFacts look_at_host(const EnsembleConfig& config) {
  HostFacts facts;
  utsname system{};
  if (::uname(&system) == 0) facts.kernel = system.release;
  look_at_addresses(facts);
  look_at_settings(facts);
  look_at_listeners(facts);
  facts.key_file = facts_of(config.key_file);
  for (const ServerConfig* each : servers_of(config, facts)) {
    if (!each->data.empty()) facts.data[each->name] = folder_facts(each->data);
    if (each->role != ServerRole::kProxy) continue;
    if (!config.proxy.interfaces.empty()) facts.interfaces = config.proxy.interfaces;
    const bool xdp = config.proxy.xdp != ProxyConfig::Xdp::kOff;
    facts.reverse_path = proxy::reverse_path_warnings(facts.interfaces, xdp);
    if (const std::string& own = config.address_interface_of(*each); !own.empty())
      facts.arp = proxy::arp_warnings(own);
    if (!xdp) continue;
    facts.xdp_refused = try_to_load_xdp();
    facts.native_xdp = ask_native_xdp(facts.interfaces);
  }
  return facts;
}

}  // namespace slice::slicectl
