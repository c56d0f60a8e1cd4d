// Call: one call of one client, from its arrival to its reply. A ReadCall or WriteCall has a leg a piece; a
// PlainCall has one leg.
#ifndef SLICE_PROXY_CALLS_CALL_H
#define SLICE_PROXY_CALLS_CALL_H

#include <cstdint>
#include <memory>

#include "common/trace.h"
#include "proxy/calls/client.h"
#include "proxy/calls/reply_patch.h"
#include "proxy/calls/services.h"
#include "proxy/servers/leg.h"
#include "wire/nfs_status.h"

namespace slice::proxy {

// A parsed NFS call, with copies of what outlives its record.
struct CallFacts {
  Origin origin;
  Xid reply_xid;  // of the message; the origin's, unless another host's proxy passed it on
  std::uint32_t procedure = 0;
  FileId fileid;
  std::uint32_t asked_ms = 0;  // as in ReplyFacts
  std::uint32_t directory_site = 0;
  std::uint32_t handle_flags = 0;
  std::uint32_t stripe_shift = 0;
  std::uint64_t offset = 0;
  std::uint32_t count = 0;
  std::uint32_t stable = 0;
  std::array<std::uint8_t, SLICE_HANDLE_SIZE> handle{};

  ReplyFacts reply_facts() const { return {procedure, fileid, asked_ms}; }
};

class Call : public LegOwner, public UnderWay {
 public:
  Call(Services& services, Client& client, CallFacts facts);
  ~Call() override;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Bytes of the record beyond those that the call was made with; only for calls that take pieces.
  virtual void on_request_piece(const BufferRef&) {}
  virtual void on_request_end() {}
  const CallFacts& facts() const { return facts_; }
  std::string about() const override;

 protected:
  // Gives the client its reply and ends: the last thing a call does.
  void finish(const BufferChain& record);
  // The same where the client has its reply already.
  void finish();
  void fail(nfs3::Status status);
  void charge(std::size_t bytes);
  // Gives a leg its xid, if it has none; false where as many are under way as can be.
  bool take_up(Leg& leg);
  // Encodes and sends one leg to where routing::place_of() has it.
  void dispatch(Leg& leg, const slice_route& route, ByteView head, const BufferChain& data);
  void on_waits(Leg& leg, bool on) override;
  virtual std::string waits_for() const { return "nothing"; }
  // A server's reply as the client gets it: mark, xid, attributes.
  BufferChain rewrite(const BufferChain& reply, PatchedReply& patched);

  Services& services_;
  Client& client_;
  CallFacts facts_;

 private:
  void tell_tracer(std::uint32_t status, std::size_t sent);

  std::size_t charged_ = 0;
  std::size_t waiting_legs_ = 0, aside_ = 0;  // for servers that cannot be reached; and what was charged then
  std::unique_ptr<Trace> trace_;              // where somebody watches
};

// A record of `body_size` bytes begun: mark, xid, accepted, success, status 0.
class ReplyWriter {
 public:
  ReplyWriter(Xid xid, std::size_t reserve);
  rpc::XdrWriter& body() { return out_; }
  // The record, with `more` bytes of data announced behind what was written.
  BufferRef finish(ChunkPool& pool, std::size_t more);

 private:
  rpc::XdrWriter out_;
};

// A whole record, whose first four bytes are left for its mark, with it; the writer has nothing then.
Buffer marked(rpc::XdrWriter& record);
// Answers with such a record.
void answer_with(Services& services, Client& client, rpc::XdrWriter& record);

}  // namespace slice::proxy

#endif  // SLICE_PROXY_CALLS_CALL_H
