#include "proxy/front/udp_front.h"

#include <sys/uio.h>

#include <algorithm>

#include "common/log.h"
#include "rpc/message.h"
#include "wire/nfs3.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;

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
  Peer(UdpFront& front, Senders& senders, rpc::Endpoint who) : front_(front), senders_(senders), who_(who) {}
  ~Peer() override { drop_calls(); }
  rpc::Endpoint endpoint() const override { return who_; }
  void reply(Call& call, const BufferChain& record) override {
    under_way.erase(call.facts().reply_xid.value);
    if (call.facts().procedure == SLICE_NFS_FSINFO && record.slices().size() == 1) {
      const BufferRef& only = record.slices().front();
      clamp_fsinfo(const_cast<std::uint8_t*>(only.data) + 4, only.size - 4);
    }
    front_.send(who_, record);
  }
  void charge(std::size_t bytes) override { Member::hold(bytes); }
  void release(std::size_t bytes) override { Member::release(bytes); }
  void set_aside(std::size_t bytes) override { Member::set_aside(bytes); }
  void take_back(std::size_t bytes) override { Member::take_back(bytes); }
  void call_begins() override {
    Member::call_begins();
    if (calls() == 1) front_.place(*this);
  }
  void call_ends() override {
    Member::call_ends();
    if (calls() == 0) front_.place(*this);
  }
  Senders& senders() { return senders_; }

  std::unordered_set<std::uint32_t> under_way;  // xids: a repeated one waits for the first's reply
  MonoTime heard_at{};

 private:
  Standing standing() const override { return {}; }
  void on_room() override {}  // datagrams do not wait
  void on_end(std::string_view) override {}

  UdpFront& front_;
  Senders& senders_;
  rpc::Endpoint who_;
};

UdpFront::UdpFront(Services& services, CallRouter& router, const Budget& budget, rpc::Admission& admission,
                   DatagramPort& port, std::size_t most_senders)
    : services_(services),
      router_(router),
      budget_(budget),
      admission_(admission),
      port_(port),
      most_senders_(most_senders),
      by_count_(kPeersOfAddress + 1),
      received_(services.metrics.counter("proxy_udp_datagrams_total", "datagrams that XDP passed up")),
      repeated_(services.metrics.counter("proxy_udp_repeated_total",
                                         "datagrams that were retransmissions of requests under way")),
      refused_(services.metrics.counter("proxy_udp_refused_total", "datagrams that were refused")),
      strangers_(services.metrics.counter("proxy_udp_strangers_refused_total",
                                          "datagrams refused from clients in no export")),
      unsent_(services.metrics.counter("proxy_udp_replies_unsent_total",
                                       "replies over UDP that the socket did not take")),
      now_(services.metrics.gauge("proxy_udp_senders",
                                  "addresses and ports that datagrams came from in the last minute; at most "
                                  "16384, and 256 of one address")),
      refusals_(services.metrics) {}

UdpFront::~UdpFront() {
  peers_.clear();
}

// The sender, which is the last one heard of its address now; null where there is no room for it.
UdpFront::Peer* UdpFront::peer_at(rpc::Endpoint from) {
  auto found = peers_.find(from);
  if (found == peers_.end()) {
    if (!make_room(from.address)) return nullptr;
    Senders& senders = senders_[from.address];
    found = peers_.emplace(from, std::make_unique<Peer>(*this, senders, from)).first;
    admission_.join_datagrams(*found->second, from.address);
    ++senders.count;
    now_.set(peers_.size());
  }
  found->second->heard_at = services_.plumbing.loop.now();
  place(*found->second);
  return found->second.get();
}

// One host's many ports are no reason to refuse others, nor are the ports of many: who has most of them loses
// the one that was silent for longest, which costs it nothing. False where all have calls under way.
bool UdpFront::make_room(IpAddress address) {
  auto own = senders_.find(address);
  Senders* from = nullptr;
  if (own != senders_.end() && own->second.count >= kPeersOfAddress) {
    from = &own->second;
  } else if (peers_.size() >= most_senders_) {
    from = most_crowded();
  } else {
    return true;
  }
  if (from == nullptr || from->idle.empty()) return false;
  forget(from->idle.front()->endpoint());
  return true;
}

UdpFront::Senders* UdpFront::most_crowded() {
  while (most_of_address_ > 0 && by_count_[most_of_address_].empty()) --most_of_address_;
  return most_of_address_ == 0 ? nullptr : by_count_[most_of_address_].front();
}

// Behind the others of its address that are as it is, idle or busy.
void UdpFront::place(Peer& peer) {
  Senders& senders = peer.senders();
  (peer.calls() == 0 ? senders.idle : senders.busy).push_back(peer);
  rank(senders);
}

void UdpFront::rank(Senders& senders) {
  if (senders.idle.empty()) return senders.unlink();
  by_count_[senders.count].push_back(senders);
  most_of_address_ = std::max(most_of_address_, senders.count);
}

void UdpFront::forget(rpc::Endpoint who) {
  auto found = peers_.find(who);
  Senders& senders = found->second->senders();
  peers_.erase(found);  // with its calls
  now_.set(peers_.size());
  if (--senders.count == 0) {
    senders_.erase(who.address);
  } else {
    rank(senders);
  }
}

// Nothing is kept of it but the answer, which is no longer than its call.
void UdpFront::refuse_stranger(rpc::Endpoint from, ByteView datagram) {
  strangers_.add();
  refusals_.note(rpc::Refused::kExport, from, "a datagram of {} bytes", datagram.size());
  std::optional<Buffer> refusal = router_.refuse_stranger(datagram);
  if (!refusal) return;
  BufferChain record;
  record.append(services_.plumbing.pool.copy(refusal->view()));
  send(from, record);
}

void UdpFront::take(rpc::Endpoint from, ByteView datagram) {
  received_.add();
  if (!services_.may_serve()) return refused_.add();
  if (datagram.size() < 4 || budget_.exhausted()) return refused_.add();
  if (!router_.is_exported_to(from.address)) return refuse_stranger(from, datagram);
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
  for (auto each = senders_.begin(); each != senders_.end();) {
    Senders& senders = (each++)->second;  // which goes with the last that is forgotten
    for (std::size_t left = senders.count; left > 0; --left) {
      auto old = [&](const IntrusiveList<Peer, OfAddress>& list) {
        return !list.empty() && now - list.front()->heard_at > kPeerLife;
      };
      bool idle = old(senders.idle);
      if (!idle && !old(senders.busy)) break;
      forget((idle ? senders.idle : senders.busy).front()->endpoint());
    }
  }
}

}  // namespace slice::proxy
