// EnsembleConfig: what `ensemble.toml` says (docs/configuration.md). Every process reads the same file.
// Loading checks everything that can be checked without the network; a refusal names file, line and reason.
#ifndef SLICE_COMMON_CONFIG_H
#define SLICE_COMMON_CONFIG_H

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "common/ip_address.h"
#include "common/keys.h"
#include "common/log.h"
#include "common/result.h"

namespace slice {

enum class ServerRole : std::uint32_t {
  kDirectory = 0,
  kSmallFile = 1,
  kStorage = 2,
  kCoordinator = 3,
  kManager = 4,
  kProxy = 5,
  kRemoved = 6  // no member any more: it only keeps its number
};
inline constexpr std::size_t kServerRoles = 6;  // that a member may have
// As configurations and output name them: "directory", "small-file", "storage", "coordinator", "manager",
// "proxy"; "removed".
std::string_view role_name(ServerRole role);

// A disk of whose time the servers for bytes take their turns, for measuring (storage/disk_model.h).
struct EmulatedDiskConfig {
  std::uint32_t arms = 1;
  std::uint32_t access_us = 8000;                // seek and rotation of one operation, microseconds
  std::uint64_t bytes_per_second = 32ull << 20;  // of one arm
  std::uint64_t memory_bytes = 64ull << 20;      // what of it is found in memory instead
  bool operator==(const EmulatedDiskConfig&) const = default;
};

inline constexpr std::uint32_t kMaxBackingCopies = 3;
inline constexpr std::size_t kMaxServers = 1023;  // entries of the proxy's servers table

struct ServerConfig {
  std::string name;  // unique among members
  ServerRole role = ServerRole::kDirectory;
  std::uint32_t index = 0;         // how messages name it: its number among the members, from 0
  IpAddress address;               // where it listens (proxy: its own address, not the virtual one)
  std::uint16_t port = 2049;       // NFS and internal programs, TCP and UDP
  std::uint16_t metrics_port = 0;  // 0: that of [metrics]
  std::string data;                // data directory; empty for a proxy
  // What it keeps lies on so many storage nodes (docs/backing.md), and the data directory has what can be
  // made anew from there; 0: all is in the data directory.
  std::uint32_t backing_copies = 0;
  // With a backing set: where it may run, beside `address`, where it does as the volume is born. Which host
  // has it, the manager says.
  std::vector<IpAddress> places;
  std::uint64_t cache_bytes = 256ull << 20;  // memory for cached data or cells
  bool direct_reads = true;  // a storage node's: what is not in memory may be read past the page cache
  // As the volume is born; from then on the tables say so (wire/manager.h).
  std::uint64_t weight = 0;                         // its share of sites; 0: not said
  std::string host, rack;                           // what fails together; empty: not said
  std::string address_interface;                    // a proxy's; empty: that of [proxy]
  std::uint64_t reserve_bytes = 64ull << 20;        // free space below which writes answer NFS3ERR_NOSPC
  std::optional<EmulatedDiskConfig> emulated_disk;  // storage and small-file servers; nothing: the real one
  bool listed = true;                               // in the file; else a member that it does not have
};

inline constexpr std::uint32_t kReservedPorts =
    1024;  // below: for root alone, on hosts that are trusted at all

// Files of TLS, PEM; paths. `{name}` in one stands for the process's name.
struct TlsConfig {
  std::string certificate, key;  // of this host
  std::string authority;         // who signed the certificates of those that it talks to
  std::string revoked;           // certificates that count no more; empty: none
  bool used() const { return !certificate.empty(); }
  TlsConfig of(std::string_view name) const;
};

// What members of the ensemble have among themselves (rpc/session.h).
struct NetworkConfig {
  // By which sessions begin (the first) and are taken (any). Empty: by the ensemble's key alone.
  std::vector<Key> session_keys;
  std::vector<std::string> session_key_files;  // they came from; those that are empty count for nothing
  bool cover_all = false;                      // sessions' MACs cover data as well
  std::vector<Network> internal;               // where members are; empty: anywhere
  TlsConfig tls;
  bool takes(IpAddress host) const {
    return internal.empty() || std::any_of(internal.begin(), internal.end(),
                                           [host](const Network& each) { return each.has(host); });
  }
};

// What of each server's metrics is to be had over HTTP (http/listener.h).
struct MetricsConfig {
  bool served = false;            // [metrics] is there
  std::uint16_t port = 10049;     // at each server's address; see ServerConfig::metrics_port
  std::vector<Network> scrapers;  // who may ask; at least one where it is served
  std::uint32_t clients = 0;      // how many clients have counters of their own, at each server; 0: none
  bool takes(IpAddress host) const {
    return std::any_of(scrapers.begin(), scrapers.end(),
                       [host](const Network& each) { return each.has(host); });
  }
};
inline constexpr std::uint32_t kMaxCountedClients = 4096;

// How an ensemble of several managers shares its state (control/manager/registry.h): in etcd.
struct ManagersConfig {
  std::vector<std::string>
      etcd;                 // URLs of its members, without a path; empty: the one manager has it in a file
  std::string etcd_prefix;  // of its keys there
  std::string etcd_user;    // path of a file with USER:PASSWORD; empty: none is asked for
  std::string etcd_tls_authority, etcd_tls_certificate, etcd_tls_key;  // PEM; paths; empty: none
  std::uint32_t lease_s = 2;  // how long a leader may be silent, seconds
  bool shared() const { return !etcd.empty(); }
};
inline constexpr std::size_t kMaxEtcdMembers = 9, kMaxManagers = 16;

// How a call is protected on its way from the client. Its connection (RFC 9289), in the words of exports(5)
// and nfs(5): xprtsec=.
enum class TransportSecurity : std::uint8_t {
  kNone,      // as it comes
  kTls,       // encrypted, by the service's certificate
  kMutualTls  // the same, and the client has shown a certificate that the service trusts
};
inline constexpr std::array<std::string_view, 3> kTransportSecurityNames{"none", "tls", "mtls"};

// Who says which user makes it, and what of it cannot be changed or read (RFC 2623 section 2.2), likewise:
// sec=.
enum class SecurityFlavor : std::uint8_t {
  kSys,    // the client says it, AUTH_SYS or none
  kKrb5,   // Kerberos (RPCSEC_GSS, RFC 2203): the user has shown a ticket
  kKrb5i,  // the same, and arguments and results cannot be changed
  kKrb5p   // the same, nor read
};
inline constexpr std::array<std::string_view, 4> kSecurityFlavorNames{"sys", "krb5", "krb5i", "krb5p"};

struct CallSecurity {
  TransportSecurity transport = TransportSecurity::kNone;
  SecurityFlavor flavor = SecurityFlavor::kSys;
  bool operator==(const CallSecurity&) const = default;
};

// A set of the first kCount values of One, of which those in kDefault are in it by itself.
template <class One, std::size_t kCount, std::uint32_t kDefault>
class SetOf {
 public:
  static SetOf none() { return of_bits(0); }
  static SetOf of_bits(std::uint32_t bits) {
    SetOf out;
    out.bits_ = bits & ((1u << kCount) - 1);
    return out;
  }
  std::uint32_t bits() const { return bits_; }
  bool is_default() const { return bits_ == kDefault; }
  bool has(One one) const { return (bits_ >> static_cast<unsigned>(one) & 1) != 0; }
  void add(One one) { add_index(static_cast<std::size_t>(one)); }
  void add_index(std::size_t index) { bits_ |= 1u << index; }
  bool operator==(const SetOf&) const = default;

 private:
  std::uint32_t bits_ = kDefault;
};
// What an export takes: of transports by itself all, of flavors that of clients without Kerberos.
using TransportSecurities =
    SetOf<TransportSecurity, kTransportSecurityNames.size(), (1u << kTransportSecurityNames.size()) - 1>;
using SecurityFlavors = SetOf<SecurityFlavor, kSecurityFlavorNames.size(), 1>;

// Whether it is a path within the volume as all are named: "/", or parts behind a "/" each, none of which is
// empty, "." or "..".
bool is_clean_path(std::string_view path);
inline constexpr std::size_t kMaxExportPath = 255;

struct ExportConfig {
  std::string path = "/";  // of a tree (docs/trees.md), or of the whole volume
  Network clients;
  bool read_only = false;
  enum class Squash { kRoot, kAll, kNone } squash = Squash::kRoot;
  std::uint32_t anonymous_uid = 65534, anonymous_gid = 65534;
  bool secure = true;  // only calls from reserved ports are taken
  bool takes_port(std::uint32_t port) const { return !secure || port < kReservedPorts; }
  TransportSecurities transports;  // that NFS calls may come by
  SecurityFlavors flavors;         // likewise
  bool operator==(const ExportConfig&) const = default;
};
inline constexpr std::size_t kMaxExports = 4096;

// What clients may take of a front, a server's port or the virtual address (rpc/admission.h); 0: what that
// front has by itself.
struct ClientLimits {
  std::uint64_t connections = 0, connections_of_address = 0;
  std::uint64_t memory = 0, memory_of_address = 0;  // bytes
  std::uint64_t calls = 0, calls_of_address = 0;    // under way
  bool operator==(const ClientLimits&) const = default;
};

inline constexpr std::uint32_t kMostSlowOperationMs = 3'600'000;
// Heartbeats come each second: who was not heard of for less may be well.
inline constexpr std::uint32_t kLeastFailoverMs = 1500, kMostFailoverMs = 3'600'000,
                               kDefaultFailoverMs = 2000;
inline constexpr bool is_failover_ms(std::uint32_t ms) {
  return ms == 0 || (ms >= kLeastFailoverMs && ms <= kMostFailoverMs);
}
inline constexpr std::uint32_t kMostSpinUs = 1000;
inline constexpr std::uint32_t kMaxCopies = 3;
inline constexpr std::uint64_t kLeastStripeUnit = 8 << 10;  // bytes: a block of the small-file server
// A power of two from that to 1 GiB.
constexpr bool is_stripe_unit(std::uint64_t bytes) {
  return std::has_single_bit(bytes) && bytes >= kLeastStripeUnit && bytes <= 1ull << 30;
}

// On which storage nodes the stripes of a file go: by the hash of (fileID, stripe), or by free space, as its
// block map says.
enum class Placement : std::uint8_t { kHash, kFreeSpace };
inline constexpr std::array<std::string_view, 2> kPlacementNames{"hash", "free-space"};

struct VolumeConfig {
  VolumeId id{1};
  std::string export_path = "/";
  std::uint64_t threshold = 64 << 10;  // bytes; a multiple of 8 KiB, or 0 (no small-file service)
  // Stripe unit = 1 << stripe_shift bytes. A client's 1 MiB is four pieces: less are hardly cheaper, and have
  // fewer nodes work for one reader (docs/measuring.md, "Stripe units").
  std::uint32_t stripe_shift = 18;
  std::uint32_t copies = 1;                // of each byte of a new file; over 1: on storage nodes alone
  Placement placement = Placement::kHash;  // of a new file
  enum class NamePolicy { kMkdirSwitching, kNameHashing } policy = NamePolicy::kMkdirSwitching;
  enum class NameHash { kMd5, kSipHash13 } hash = NameHash::kMd5;
  // With which a new directory goes to the site that its name's hash gives. None: its parent's server
  // decides.
  std::optional<double> mkdir_probability = {};
  std::uint32_t root_mode = 0755, root_uid = 0, root_gid = 0;
};

inline constexpr std::uint32_t kDefaultAddressPatienceMs = 2000;
inline constexpr std::uint32_t kLeastAddressPatienceMs = 1800, kMostAddressPatienceMs = 60'000;

struct ProxyConfig {
  IpAddress virtual_address;
  // Of the other family, where the volume is at two addresses; else none.
  IpAddress second_address;
  // Both, or the one.
  std::vector<IpAddress> addresses() const;
  std::string addresses_text() const;  // "10.77.0.1 fd77::1"
  bool is_virtual(IpAddress address) const {
    return address == virtual_address || (!second_address.none() && address == second_address);
  }
  // The one of IPv4, or of IPv6; none where there is none of it.
  IpAddress address_of(bool v4) const {
    return virtual_address.is_v4() == v4 ? virtual_address : second_address;
  }
  std::uint16_t nfs_port = 2049, mount_port = 20048, portmap_port = 111;
  enum class Xdp { kAuto, kNative, kGeneric, kOff } xdp = Xdp::kAuto;
  std::string bpf_folder = "/sys/fs/bpf/slice";
  std::uint32_t threads = 0;  // 0: one a core
  // Where the XDP program is attached: towards clients and towards servers. Empty: every interface of the
  // network namespace that is up and has an address that is not link-local, but for loopback.
  std::vector<std::string> interfaces;
  // Where the proxy that has the virtual address puts it, one of several (docs/proxy.md, "Several proxies").
  // Empty: who has it is the administrator's matter.
  std::string address_interface;
  std::uint32_t address_patience_ms = kDefaultAddressPatienceMs;  // without a word of its holder
  TlsConfig tls;  // with clients that ask for it (docs/encryption.md)
  // Keys of the service, a path, for clients that come by Kerberos (docs/kerberos.md); empty: none can.
  std::string kerberos_keytab;
};

struct EnsembleConfig {
  std::string path;  // the file it came from
  std::string name;
  std::string data_folder =
      "/var/lib/slice";  // of servers that the file does not list: their data directories
  std::string key_file;  // its path
  Key ensemble_key{};    // from it: sessions, where there are no keys for them
  Key handle_key{};      // derived from the ensemble key and the volume id: MAC of handles
  Key name_key{};        // derived likewise: siphash13 of names
  VolumeConfig volume;
  std::array<std::uint32_t, 4> site_counts{64, 64, 1024, 64};  // by the first four roles; powers of two
  std::vector<ExportConfig> exports;  // see Settings::export_for(), as for all that common/settings.h has
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
  std::uint32_t slow_operation_ms = 0;  // from when on an operation is logged; 0: none is
  // After so long a silence a server is served elsewhere (docs/failover.md); 0: never without being told.
  std::uint32_t failover_ms = kDefaultFailoverMs;
  std::uint32_t spin_us = 0;  // that loops look for work before they sleep; 0: they sleep at once
  ClientLimits limits;
  NetworkConfig network;
  MetricsConfig metrics;
  ManagersConfig managers;
  ProxyConfig proxy;
  std::vector<ServerConfig> servers;
  std::vector<std::string> warnings;  // what is allowed but hardly meant; for the log, one line each

  // Where its metrics are had over HTTP.
  std::uint16_t metrics_port_of(const ServerConfig& server) const {
    return server.metrics_port != 0 ? server.metrics_port : metrics.port;
  }
  // Where this proxy puts the virtual address; empty: nowhere.
  const std::string& address_interface_of(const ServerConfig& server) const {
    return server.address_interface.empty() ? proxy.address_interface : server.address_interface;
  }
  // Nothing where there is no such member. Valid as long as this configuration.
  const ServerConfig* find(std::string_view server_name) const;
  // Whether a server with this name was a member once.
  bool has_removed(std::string_view server_name) const;
  const ServerConfig* first(ServerRole role) const;
  std::size_t count(ServerRole role) const;
};

// kInvalid: "FILE:LINE: reason". Reads the key file too.
Result<EnsembleConfig> load_ensemble(const std::string& path);
// The same from text in memory: `path` is what refusals name and what key_file is relative to.
Result<EnsembleConfig> parse_ensemble(std::string_view text, const std::string& path);

// The key that EnsembleConfig::ensemble_key is, of the bytes of key_file.
Key derive_ensemble_key(std::string_view secret);

// Whether a server may have this name: 1 to 63 letters, digits, '-', '_' or '.'.
bool is_server_name(std::string_view name);

// A server as the ensemble knows it.
struct Member {
  std::string name;
  ServerRole role = ServerRole::kDirectory;
  IpAddress address;
  std::uint16_t port = 0;
};
// The configuration for an ensemble of these members: its servers are they, in their order, where they are.
// What the file says of one beside that stays; one that it does not have gets what is default, and the data
// directory data_folder/NAME. Servers of the file that are no members come behind, numbered on, but for those
// that were removed.
EnsembleConfig with_members(EnsembleConfig config, const std::vector<Member>& members);

// The keys in the files that [network] session_keys names, read again: for a change of keys while it runs.
// kInvalid, with the reason, where one cannot be used or all are empty; then nothing is to change.
Result<std::vector<Key>> read_session_keys(const EnsembleConfig& config);

// "64KiB", "1GiB", "512": bytes.
Result<std::uint64_t> parse_size(std::string_view text);

}  // namespace slice

#endif  // SLICE_COMMON_CONFIG_H
