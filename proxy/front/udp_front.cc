#include "proxy/front/udp_front.h"

#include <sys/uio.h>

#include "rpc/message.h"
#include "wire/nfs3.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMaxPeers = 16384;
constexpr std::size_t kPeersOfAddress = 256;  // ports that one host calls from; clients use one a mount
constexpr std::size_t kCallsOfPeer = 1024;
constexpr std::uint32_t kLargestTransfer = 60 << 10;  // with its headers it fits one datagram
constexpr Duration kPeerLife = 60s;

// FSINFO3resok (RFC 1813 section 3.3.19): sizes that fit datagrams. What servers say is meant for TCP, since
// that is how they were asked.
void clamp_fsinfo(std::uint8_t* message, std::size_t size) {
  auto decoded = rpc::decode_reply({message, size});
  if (!decoded || !decoded->accepted || decoded->accept_stat != rpc::AcceptStat::kSuccess) return;
  rpc::XdrReader in(decoded->results);
  if (in.u32() != 0) return;
  if (in.boolean()) in.skip(SLICE_FATTR_BYTES);
  if (!in.ok() || in.left() < 28) return;
  std::uint8_t* sizes = message + (size - in.left());
  for (std::size_t at : {0u, 4u, 12u, 16u, 24u}) {  // rtmax, rtpref, wtmax, wtpref, dtpref
    auto value = load_be<std::uint32_t>(sizes + at);
    store_be(sizes + at, std::min(value, nfs3::kMaxUdpTransfer));
  }
}

}  // namespace

// One sender of datagrams.
class UdpFront::Peer : public Client, public rpc::Admission::Member, public ListHook<UdpFront::OfAddress> {
 public:
  Peer(UdpFront& front, rpc::Endpoint who) : front_(front), who_(who) {}
  ~Peer() override { drop_calls(); }
  rpc::Endpoint endpoint() const override { return who_; }
  void reply(Call& call, const BufferChain& record) override {
    under_way.erase(call.facts().origin.xid.value);
    if (call.facts().procedure == SLICE_NFS_FSINFO && record.slices().size() == 1) {
      const BufferRef& only = record.slices().front();
      clamp_fsinfo(const_cast<std::uint8_t*>(only.data) + 4, only.size - 4);
    }
    front_.send(who_, record);
  }
  void charge(std::size_t bytes) override { Member::hold(bytes); }
  void release(std::size_t bytes) override { Member::release(bytes); }
  void call_begins() override { Member::call_begins(); }
  void call_ends() override { Member::call_ends(); }

  std::unordered_set<std::uint32_t> under_way;  // xids: a repeated one waits for the first's reply
  MonoTime heard_at{};

 private:
  Standing standing() const override { return {}; }
  void on_room() override {}  // datagrams do not wait
  void on_end(std::string_view) override {}

  UdpFront& front_;
  rpc::Endpoint who_;
};

UdpFront::UdpFront(Services& services, CallRouter& router, const Budget& budget, rpc::Admission& admission,
                   DatagramPort& port)
    : services_(services),
      router_(router),
      budget_(budget),
      admission_(admission),
      port_(port),
      received_(services.metrics.counter("proxy_udp_datagrams_total")),
      repeated_(services.metrics.counter("proxy_udp_repeated_total")),
      refused_(services.metrics.counter("proxy_udp_refused_total")),
      unsent_(services.metrics.counter("proxy_udp_replies_unsent_total")),
      now_(services.metrics.counter("proxy_udp_senders")) {}

UdpFront::~UdpFront() {
  peers_.clear();
}

// The sender, which is the last one heard of its address now; null where there is no room for it.
UdpFront::Peer* UdpFront::peer_at(rpc::Endpoint from) {
  Senders& senders = senders_[from.address];
  auto found = peers_.find(from);
  if (found == peers_.end()) {
    if (peers_.size() >= kMaxPeers || (senders.count >= kPeersOfAddress && !make_room(senders))) {
      if (senders.count == 0) senders_.erase(from.address);
      return nullptr;
    }
    found = peers_.emplace(from, std::make_unique<Peer>(*this, from)).first;
    admission_.join_datagrams(*found->second, from.address);
    ++senders.count;
    now_.set(peers_.size());
  }
  senders.list.push_back(*found->second);
  found->second->heard_at = services_.plumbing.loop.now();
  return found->second.get();
}

// One host's many ports are no reason to refuse others: it loses the one that was silent for longest. False
// where that one has calls under way.
bool UdpFront::make_room(Senders& senders) {
  Peer& oldest = *senders.list.front();
  if (!oldest.under_way.empty()) return false;
  forget(oldest.endpoint());
  return true;
}

void UdpFront::forget(rpc::Endpoint who) {
  peers_.erase(who);
  now_.set(peers_.size());
  --senders_[who.address].count;
}

void UdpFront::take(rpc::Endpoint from, ByteView datagram) {
  received_.add();
  if (datagram.size() < 4 || budget_.exhausted()) return refused_.add();
  Peer* known = peer_at(from);
  if (known == nullptr) return refused_.add();
  Peer& peer = *known;
  auto xid = load_be<std::uint32_t>(datagram.data());
  if (peer.under_way.size() >= kCallsOfPeer || !peer.may_take()) return refused_.add();
  if (!peer.under_way.insert(xid).second) return repeated_.add();
  BufferChain message;
  message.append(services_.plumbing.pool.copy(datagram));
  if (!router_.take(peer, message, kLargestTransfer)) {
    refused_.add();
    peer.under_way.erase(xid);
  }
}

void UdpFront::send(rpc::Endpoint to, const BufferChain& record) {
  iovec vectors[64];
  std::size_t used = 0, skip = 4;  // the record mark
  for (const BufferRef& slice : record.slices()) {
    std::size_t skipped = std::min(skip, slice.size);
    skip -= skipped;
    if (skipped == slice.size) continue;
    if (used == std::size(vectors)) return unsent_.add();
    vectors[used++] = {const_cast<std::uint8_t*>(slice.data) + skipped, slice.size - skipped};
  }
  if (!port_.send(to, {vectors, used})) unsent_.add();
}

void UdpFront::tick(MonoTime now) {
  for (auto senders = senders_.begin(); senders != senders_.end();) {
    while (senders->second.count > 0 && now - senders->second.list.front()->heard_at > kPeerLife) {
      forget(senders->second.list.front()->endpoint());
    }
    senders = senders->second.count == 0 ? senders_.erase(senders) : std::next(senders);
  }
}

}  // namespace slice::proxy
