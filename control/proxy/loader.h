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

class Loader {
 public:
  struct Attached {
    std::string interface;
    unsigned ifindex = 0;
    bool native = false;
  };

  // Needs the rights to load programs; kIo with the reason where the kernel refuses.
  static Result<std::unique_ptr<Loader>> load(const ProxyConfig& config);
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
  // "native eth0 eth1; generic eth2", or "none".
  std::string describe() const;
  // For a clean stop: the program leaves the interfaces, the tables stay pinned.
  void detach();
  // Sets the `xdp_outcomes_total{outcome=...}` figures.
  void export_outcomes(Metrics& metrics) const;

 private:
  Loader() = default;
  Status open(const ProxyConfig& config, bool fresh);
  Status map_tables();
  bool attach_one(const std::string& interface, ProxyConfig::Xdp mode);

  struct Skeleton;
  std::unique_ptr<Skeleton> skeleton_;
  Tables tables_;
  std::vector<std::pair<void*, std::size_t>> mappings_;
  std::vector<Attached> attached_;
  bool reused_ = false, pinned_ = false;
};

}  // namespace slice::proxy

#endif  // SLICE_CONTROL_PROXY_LOADER_H
