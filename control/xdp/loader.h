// Loader: the XDP program and its tables: makes the tables, pins them under the configured folder, loads the
// program, attaches it to interfaces. Pinned tables outlive a crash of slice-proxyd, and the program goes on
// routing with them; the next start takes them over. The tables are there at once; the program takes the
// kernel's verifier some tenths of a second, so it is loaded while user space serves.
#ifndef SLICE_CONTROL_XDP_LOADER_H
#define SLICE_CONTROL_XDP_LOADER_H

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/config.h"
#include "common/metrics.h"
#include "common/result.h"
#include "proxy/tables/tables.h"

namespace slice::proxy {

// Interfaces that are up and have an address that is not link-local, but for loopback.
std::vector<std::string> usual_interfaces();

class OurPrograms;

class Loader {
 public:
  struct Attached {
    std::string interface;
    unsigned ifindex = 0;
    bool native = false;
  };

  // The tables alone. Needs CAP_BPF. kDenied: without it; kIo: the system has no room, or no BPF at all.
  static Result<std::unique_ptr<Loader>> open(const ProxyConfig& config);
  // Once, on any thread, while others use tables() at most. Needs the rights to load programs: CAP_BPF,
  // CAP_PERFMON and CAP_NET_ADMIN; to attach and detach one, CAP_NET_ADMIN. Where the kernel refuses:
  // kDenied, with the kernel's release and the last line of what its verifier says; the tables stay as they
  // are. kIo.
  Status load_program(const ProxyConfig& config);
  // For a proxy that serves without the program: takes one of a run before off the interfaces, where it
  // would go on routing by tables that nobody keeps.
  static void take_off(const ProxyConfig& config);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  const Tables& tables() const { return tables_; }
  // Whether the tables were there already, from a run before.
  bool reused() const { return reused_; }
  bool pinned() const { return pinned_; }
  int program_fd() const;  // of a loaded one
  int evictions_fd() const;
  int orphans_fd() const;

  // Attaches to the configured interfaces, or to all that fit; natively, else generically, as `mode` allows.
  // Says in the log what it did, and in config.flags whether all of them are network cards. Interfaces that
  // take neither are left to user space. Called again it attaches to those that have come since: a server may
  // be added behind a new one, whose replies need the program as well.
  void attach(const ProxyConfig& config);
  const std::vector<Attached>& attached() const { return attached_; }
  std::vector<std::string> attached_interfaces() const;
  // "native eth0 eth1; generic eth2", or "none".
  std::string describe() const;
  // The program that sends TCP on to other proxies (bpf/proxy/spread.h), at what comes in by this interface.
  // Again, it does so where the interface was made anew since. kUnavailable: there is no such interface;
  // kDenied, kIo: the kernel does not take it.
  Status attach_spread(const std::string& interface);
  // For a clean stop: the programs leave the interfaces, the tables stay pinned.
  void detach();
  // Sets the `xdp_outcomes_total{outcome=...}` figures.
  void export_outcomes(Metrics& metrics) const;

 private:
  Loader() = default;
  Status make_maps(const ProxyConfig& config, bool fresh);
  Status pin_maps(const ProxyConfig& config, bool fresh);
  Status share_maps();
  // None: all of IPv6 is left to user space.
  Status set_virtual_ipv6(IpAddress address);
  void pin_program(const ProxyConfig& config);
  Status map_tables();
  // For the program: whether it runs generically there (bpf/proxy/checksum.h).
  void note_generic(std::uint32_t ifindex, bool generic);
  bool attach_one(const std::string& interface, ProxyConfig::Xdp mode, const OurPrograms& ours);

  struct Skeleton;
  std::unique_ptr<Skeleton> maps_;     // without the program
  std::unique_ptr<Skeleton> program_;  // with those maps; null until it is loaded
  Tables tables_;
  std::vector<std::pair<void*, std::size_t>> mappings_;
  std::vector<Attached> attached_;
  std::set<std::pair<std::string, unsigned>> tried_;  // interfaces, by name and index
  unsigned spread_at_ = 0;                            // interface
  bool reused_ = false, pinned_ = false;
};

}  // namespace slice::proxy

#endif  // SLICE_CONTROL_XDP_LOADER_H
