// Leg: one request on its way to one site and back. A client's call has one, or one a piece where it was
// split. The request is kept until its reply is whole, so that it can be sent again when a server dies.
#ifndef SLICE_PROXY_SERVERS_LEG_H
#define SLICE_PROXY_SERVERS_LEG_H

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/loop.h"
#include "common/metrics.h"
#include "common/trace.h"
#include "proxy/stream/buffers.h"
#include "proxy/stream/intrusive_list.h"
#include "proxy/stream/record_reader.h"
#include "rpc/endpoint.h"

namespace slice::proxy {

class BackendConnection;
struct Leg;

// Who gets a leg's reply. Any of these may destroy the leg.
class LegOwner {
 public:
  virtual ~LegOwner() = default;
  virtual void on_reply(Leg& leg, const BufferChain& reply) = 0;
  // As RecordHandler's: a long reply may be taken in pieces.
  virtual RecordHandler::Take on_reply_head(Leg&, ByteView, std::size_t) {
    return RecordHandler::Take::kWhole;
  }
  virtual void on_reply_piece(Leg&, const BufferRef&) {}
  virtual void on_reply_end(Leg&) {}
  // It waits for a server that cannot be reached; or does no longer.
  virtual void on_waits(Leg&, bool) {}
  // The rest of a reply taken in pieces will not come. The request is sent again unless the owner destroys
  // the leg or changes its request here.
  virtual void on_reply_broken(Leg&) {}
};

struct LegTag {};

struct Leg : ListHook<LegTag> {
  explicit Leg(LegOwner& who) : owner(&who) {}
  ~Leg();

  LegOwner* owner;
  std::uint32_t xid = 0;  // ours, towards servers
  std::uint32_t site_class = 0;
  std::uint32_t site = 0;
  // Of a stripe whose place a block map tells: its site by the hash. There it goes where the map is older
  // than the removal of the servers that it names.
  std::optional<std::uint32_t> site_by_hash;
  // Of a mirrored file's stripe: on how many servers it is, and with which of them to begin.
  std::uint32_t copies = 1, first_copy = 0;
  BufferChain request;           // with its record mark
  std::size_t request_size = 0;  // when whole
  std::size_t expected_reply = 0;
  unsigned sends = 0;
  MonoTime sent_at{};
  Histogram* latency = nullptr;             // of the server that it was sent to; none: nobody counts
  rpc::Endpoint server;                     // that it was sent to
  Trace* trace = nullptr;                   // of its call; null: nobody watches
  MonoTime asked_at{};                      // when it was ready to be sent; this and the next with a trace
  std::uint32_t procedure = 0;              // of NFS
  BackendConnection* connection = nullptr;  // that it was sent on
  bool waits = false;                       // for a server that cannot be reached
  class LegTable* table = nullptr;          // that has its xid

  bool whole() const { return request.size() == request_size; }
  // Its whole reply came.
  void answered(MonoTime now) const {
    if (latency != nullptr) latency->observe(now - sent_at);
    if (trace != nullptr) note_answered();
  }
  void note_answered() const;
  void set_waits(bool on) {
    if (std::exchange(waits, on) != on) owner->on_waits(*this, on);
  }
  // For the log: where it is.
  std::string about() const;
};

// Legs by xid. An xid is not given again until 2^14 others of its slot were, so that a late second reply
// finds nothing.
class LegTable {
 public:
  static constexpr std::uint32_t kSlotBits = 18;
  // False where 2^18 legs are under way.
  bool add(Leg& leg);
  void remove(Leg& leg);
  Leg* find(std::uint32_t xid) const;
  std::size_t size() const { return slots_.size() - free_.size(); }

 private:
  struct Slot {
    Leg* leg = nullptr;
    std::uint32_t turn = 0;
  };
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_SERVERS_LEG_H
