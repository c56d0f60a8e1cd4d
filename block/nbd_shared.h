// What the connections of one NbdServer have together.
#ifndef SLICE_BLOCK_NBD_SHARED_H
#define SLICE_BLOCK_NBD_SHARED_H

#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "block/byte_budget.h"
#include "block/device.h"
#include "block/nbd_metrics.h"
#include "block/nbd_transmission.h"
#include "common/ip_address.h"
#include "rpc/epoll_loop.h"
#include "rpc/tls.h"

namespace slice::block {

class NbdConnection;

struct NbdOptions {
  std::size_t connections = 64;  // of all clients
  std::size_t requests = 64;     // of one connection, under way or with a reply that it has not taken
  std::size_t connection_bytes = 64 << 20;        // of their data
  std::size_t bytes = 512 << 20;                  // the same of all connections together
  std::uint32_t longest = 32 << 20;               // what one request may read or write, bytes
  std::size_t options = 64;                       // of one handshake
  Duration handshake = std::chrono::seconds(30);  // from a connection's beginning to its device
  // After so long without a byte from or to it a connection ends that holds what others wait for, or that has
  // said farewell.
  Duration patience = std::chrono::seconds(30);
  std::function<bool(IpAddress)> takes;  // whom TCP's clients may be; none: anybody
  // What clients get that ask for TLS; null: there is none. It outlives the server.
  const rpc::Tls* tls = nullptr;
  bool only_tls = false;  // over TCP nothing else is served; then there has to be `tls`
  // With it: who shows no certificate gets no further than the handshake of TLS.
  bool certificates = false;
};

// Owned by the server, its connections, and what is under way for them.
struct NbdShared : std::enable_shared_from_this<NbdShared> {
  NbdShared(rpc::EpollLoop& its_loop, Metrics& its_metrics, Devices& its_devices, NbdOptions its_options);

  // Its replies are written at the end of this round.
  void flush_later(std::shared_ptr<NbdConnection> connection);
  // Now and then, while somebody waits for memory: connections end that stand still with theirs.
  void look_later();
  void close_all();
  // What connections tell: one has closed; a client was refused, `text` being of his; a request was answered.
  void closed(const std::shared_ptr<NbdConnection>& connection);
  void refused(NbdRefusal why, std::string_view peer, std::string_view text);
  void count(const nbd::Request& request, const NbdReply& reply, std::string_view peer);

  rpc::EpollLoop& loop;
  Devices& devices;
  const NbdOptions options;
  NbdMetrics metrics;
  ByteBudget budget;
  const std::uint32_t longest;                            // of options.longest what there can be memory for
  std::list<std::shared_ptr<NbdConnection>> connections;  // the oldest first

 private:
  void flush_all();
  void look();

  std::vector<std::shared_ptr<NbdConnection>> dirty_, flushing_;
  bool hooked_ = false;
  Loop::RoundEnd round_end_;
  TimerId look_ = TimerId::kNone;
};

}  // namespace slice::block

#endif  // SLICE_BLOCK_NBD_SHARED_H
