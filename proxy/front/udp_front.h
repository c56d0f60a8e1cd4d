// UdpFront: NFS over UDP in user space: everything that the XDP program passes up, or all of it where there
// is none. Datagrams become the same calls as TCP records and go to servers over the worker's connections;
// replies leave from the virtual address. Any datagram may be lost: clients ask again.
#ifndef SLICE_PROXY_FRONT_UDP_FRONT_H
#define SLICE_PROXY_FRONT_UDP_FRONT_H

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "proxy/calls/call_router.h"
#include "proxy/front/tcp_client.h"
#include "rpc/refusals.h"

namespace slice::proxy {

// Where datagrams leave.
class DatagramPort {
 public:
  virtual ~DatagramPort() = default;
  // False where it could not be sent.
  virtual bool send(rpc::Endpoint to, std::span<const iovec> datagram) = 0;
};

class UdpFront {
 public:
  static constexpr std::size_t kMostSenders = 16384;
  // All of it outlives the front.
  UdpFront(Services& services, CallRouter& router, const Budget& budget, rpc::Admission& admission,
           DatagramPort& port, std::size_t most_senders = kMostSenders);
  ~UdpFront();
  UdpFront(const UdpFront&) = delete;
  UdpFront& operator=(const UdpFront&) = delete;

  // One that came.
  void take(rpc::Endpoint from, ByteView datagram);
  // Once a second: forgets senders that were silent for long, and their calls.
  void tick(MonoTime now);

 private:
  class Peer;
  struct OfAddress {};
  struct OfCount {};
  // The senders of one address, of each kind the one that was silent for longest first.
  struct Senders : ListHook<OfCount> {
    IntrusiveList<Peer, OfAddress> idle, busy;  // without calls under way, and with some
    std::size_t count = 0;
  };
  Peer* peer_at(rpc::Endpoint from);
  bool make_room(IpAddress address);
  Senders* most_crowded();
  void place(Peer& peer);
  void rank(Senders& senders);
  void forget(rpc::Endpoint who);
  void refuse_stranger(rpc::Endpoint from, ByteView datagram);
  void send(rpc::Endpoint to, const BufferChain& record);

  Services& services_;
  CallRouter& router_;
  const Budget& budget_;
  rpc::Admission& admission_;
  DatagramPort& port_;
  const std::size_t most_senders_;
  // Addresses with idle senders by how many senders they have, the one that was silent for longest first; and
  // none has more than `most_of_address_`. So who has to go is found without a search.
  std::vector<IntrusiveList<Senders, OfCount>> by_count_;
  std::size_t most_of_address_ = 0;
  std::unordered_map<IpAddress, Senders> senders_;  // by address
  std::unordered_map<rpc::Endpoint, std::unique_ptr<Peer>> peers_;
  Counter &received_, &repeated_, &refused_, &strangers_, &unsent_, &now_;
  rpc::Refusals refusals_;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_FRONT_UDP_FRONT_H
