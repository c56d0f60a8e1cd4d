// AoePorts: what slice-blockd serves ATA over Ethernet at: sockets and the target, as its options say.
#ifndef SLICE_BLOCKD_AOE_PORTS_H
#define SLICE_BLOCKD_AOE_PORTS_H

#include <memory>
#include <string>
#include <vector>

#include "aoe/target.h"
#include "block/device.h"
#include "common/metrics.h"
#include "common/result.h"
#include "link/socket_port.h"
#include "rpc/epoll_loop.h"

namespace slice::block {

struct AoeOptions {
  std::vector<std::string> interfaces;
  std::vector<link::HardwareAddress> clients;
  std::vector<aoe::Disk> disks;
  bool used() const { return !interfaces.empty() || !clients.empty() || !disks.empty(); }
};

// As of a command line: "7.1=VOLUME".
Result<aoe::Disk> parse_aoe_disk(const std::string& text);

class AoePorts {
 public:
  // Loop, metrics and options outlive it.
  AoePorts(rpc::EpollLoop& loop, Metrics& metrics, const AoeOptions& options)
      : loop_(loop), metrics_(metrics), options_(options) {}

  // Opens sockets, with the right CAP_NET_RAW, and serves there from now on; the devices outlive what is
  // under way.
  Status serve(Devices& devices);
  // Takes nothing more; what is under way goes on.
  void finish();
  std::size_t running() const { return target_ == nullptr ? 0 : target_->running(); }

 private:
  rpc::EpollLoop& loop_;
  Metrics& metrics_;
  const AoeOptions& options_;
  std::vector<std::unique_ptr<link::SocketPort>> ports_;
  std::unique_ptr<aoe::Target> target_;
};

}  // namespace slice::block

#endif  // SLICE_BLOCKD_AOE_PORTS_H
