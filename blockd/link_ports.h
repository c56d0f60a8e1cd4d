// LinkPorts: what slice-blockd serves the link at: keys, sockets and the target, as its options say.
#ifndef SLICE_BLOCKD_LINK_PORTS_H
#define SLICE_BLOCKD_LINK_PORTS_H

#include <memory>
#include <string>
#include <vector>

#include "block/device.h"
#include "common/metrics.h"
#include "common/result.h"
#include "link/socket_port.h"
#include "link/target.h"
#include "rpc/endpoint.h"
#include "rpc/epoll_loop.h"

namespace slice::block {

struct LinkOptions {
  std::vector<rpc::Endpoint> udp;       // where it is served over UDP
  std::vector<std::string> interfaces;  // and by Ethernet frames
  std::vector<std::string> keys;        // files of the keys that clients may have
  bool used() const { return !udp.empty() || !interfaces.empty(); }
};

class LinkPorts {
 public:
  // Loop, metrics and options outlive it.
  LinkPorts(rpc::EpollLoop& loop, Metrics& metrics, const LinkOptions& options)
      : loop_(loop), metrics_(metrics), options_(options) {}

  // Reads keys and opens sockets: of Ethernet, with the right CAP_NET_RAW. Nothing is served yet.
  Status open();
  // From now on; the devices outlive what is under way.
  void serve(block::Devices& devices);
  // The files once more; those that cannot be used leave all as it was.
  void read_keys_again();
  // Tells clients; what is under way goes on.
  void finish();
  std::size_t running() const { return target_ == nullptr ? 0 : target_->running(); }

 private:
  rpc::EpollLoop& loop_;
  Metrics& metrics_;
  const LinkOptions& options_;
  std::vector<Key> keys_;
  std::vector<std::unique_ptr<link::SocketPort>> ports_;
  std::unique_ptr<link::Target> target_;
};

}  // namespace slice::block

#endif  // SLICE_BLOCKD_LINK_PORTS_H
