// Loader: the XDP program and its tables: loads them, pins them under the configured folder, attaches the
// program to interfaces. Pinned tables outlive a crash of slice-proxyd, and the program goes on routing with
// them; the next start takes them over.
#ifndef SLICE_CONTROL_PROXY_LOADER_H
#define SLICE_CONTROL_PROXY_LOADER_H

#include <memory>
#include <string>
#include <vector>

#include "common/config.h"
#include "common/metrics.h"
#include "common/result.h"
#include "control/proxy/tables.h"

namespace slice::proxy {

// Interfaces that are up and carry IPv4, but for loopback.
std::vector<std::string> usual_interfaces();

class OurPrograms;

class Loader {
 public:
  struct Attached {
    std::string interface;
    unsigned ifindex = 0;
    bool native = false;
  };

  // Needs the rights to load programs: CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN; to attach and detach one,
  // CAP_NET_ADMIN. Where the kernel refuses: kDenied, with the kernel's release and
  // the last line of what its verifier says; tables of a run before stay as they are then. kIo: the
  // system has no room, or no BPF at all.
  static Result<std::unique_ptr<Loader>> load(const ProxyConfig& config);
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
  int program_fd() const;
  int evictions_fd() const;
  int orphans_fd() const;

  // Attaches to the configured interfaces, or to all that fit; natively, else generically, as `mode` allows.
  // Says in the log what it did, and in config.flags whether all of them are network cards. Interfaces that
  // take neither are left to user space.
  void attach(const ProxyConfig& config);
  const std::vector<Attached>& attached() const { return attached_; }
  std::vector<std::string> attached_interfaces() const;
  // "native eth0 eth1; generic eth2", or "none".
  std::string describe() const;
  // For a clean stop: the program leaves the interfaces, the tables stay pinned.
  void detach();
  // Sets the `xdp_outcomes_total{outcome=...}` figures.
  void export_outcomes(Metrics& metrics) const;

 private:
  Loader() = default;
  Status open(const ProxyConfig& config, bool fresh);
  Status pin_maps(const ProxyConfig& config, bool fresh);
  Status load_program();
  void pin_program(const ProxyConfig& config);
  Status map_tables();
  bool attach_one(const std::string& interface, ProxyConfig::Xdp mode, const OurPrograms& ours);

  struct Skeleton;
  std::unique_ptr<Skeleton> skeleton_;
  Tables tables_;
  std::vector<std::pair<void*, std::size_t>> mappings_;
  std::vector<Attached> attached_;
  bool reused_ = false, pinned_ = false;
};

}  // namespace slice::proxy

#endif  // SLICE_CONTROL_PROXY_LOADER_H
