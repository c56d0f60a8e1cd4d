// Call: one call of one client, from its arrival to its reply. A ReadCall or WriteCall has a leg a piece; a
// PlainCall has one leg.
#ifndef SLICE_CONTROL_PROXY_CALL_H
#define SLICE_CONTROL_PROXY_CALL_H

#include <memory>
#include <string_view>

#include "control/proxy/backend.h"
#include "control/proxy/call_encoder.h"
#include "control/proxy/map_cache.h"
#include "control/proxy/out_queue.h"
#include "control/proxy/reply_patch.h"
#include "control/proxy/tables.h"
#include "rpc/channel.h"
#include "wire/nfs_status.h"

namespace slice::proxy {

class Call;
struct CallTag {};

// Where a call came from: a TCP connection or a datagram's sender. Its calls end with it.
class Client {
 public:
  Client() = default;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  virtual ~Client();

  virtual rpc::Endpoint endpoint() const = 0;
  // Takes a whole reply, with its record mark. `call` ends right after.
  virtual void reply(Call& call, const SliceChain& record) = 0;
  // Whether a long reply may be given piece by piece; only then the following are called.
  virtual bool takes_pieces() const { return false; }
  virtual OutQueue::StreamId open_reply() { return 0; }
  virtual void append_reply(OutQueue::StreamId, const Slice&) {}
  virtual void close_reply(OutQueue::StreamId) {}
  // As OutQueue::abort.
  virtual bool abort_reply(OutQueue::StreamId) { return true; }
  // A reply that was begun cannot be finished.
  virtual void give_up(std::string_view) {}
  // Memory that the client's calls hold or will need for replies; and their number.
  virtual void charge(std::size_t) {}
  virtual void release(std::size_t) {}
  virtual void call_begins() {}
  virtual void call_ends() {}

  // Ends every call under way, without replies.
  void drop_calls();
  bool has_calls() const { return !calls_.empty(); }

 private:
  friend class Call;
  IntrusiveList<Call, CallTag> calls_;
};

// What calls need of their worker.
class Services {
 public:
  Services(Plumbing plumbing_in, Tables tables_in, AttributeCache& cache_in, CallEncoder& encoder_in,
           MapCache& maps_in, Metrics& metrics_in);
  virtual ~Services() = default;
  // Sends a whole leg to the server that has its site now; keeps it while there is none.
  virtual void route(Leg& leg) = 0;
  // Null where the leg can only be sent when it is whole.
  virtual BackendConnection* begin_upload(Leg& leg) = 0;
  void count(std::uint32_t outcome) { outcomes_[outcome % SLICE_OUTCOME_COUNT]->add(); }

  Plumbing plumbing;
  Tables tables;
  AttributeCache& cache;
  CallEncoder& encoder;
  MapCache& maps;
  Metrics& metrics;

 private:
  std::array<Counter*, SLICE_OUTCOME_COUNT> outcomes_{};
};

// A parsed NFS call, with copies of what outlives its record.
struct CallFacts {
  Origin origin;
  std::uint32_t procedure = 0;
  FileId fileid;
  std::uint32_t directory_site = 0;
  std::uint32_t handle_flags = 0;
  std::uint32_t stripe_shift = 0;
  std::uint64_t offset = 0;
  std::uint32_t count = 0;
  std::uint32_t stable = 0;
  std::array<std::uint8_t, SLICE_HANDLE_SIZE> handle{};

  ReplyFacts reply_facts() const { return {procedure, fileid}; }
};

class Call : public LegOwner, public ListHook<CallTag> {
 public:
  Call(Services& services, Client& client, CallFacts facts);
  ~Call() override;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Bytes of the record beyond those that the call was made with; only for calls that take pieces.
  virtual void on_request_piece(const Slice&) {}
  virtual void on_request_end() {}
  const CallFacts& facts() const { return facts_; }

 protected:
  // Gives the client its reply and ends: the last thing a call does.
  void finish(const SliceChain& record);
  void fail(nfs3::Status status);
  void charge(std::size_t bytes);
  // Encodes and sends one leg to where slice_route_call sent it.
  void dispatch(Leg& leg, const slice_route& route, ByteView head, const SliceChain& data);
  // A server's reply as the client gets it: mark, xid, attributes.
  SliceChain rewrite(const SliceChain& reply, PatchedReply& patched);

  Services& services_;
  Client& client_;
  CallFacts facts_;

 private:
  std::size_t charged_ = 0;
};

// The pieces of a READ or WRITE: each lies on one site.
struct Piece {
  explicit Piece(LegOwner& owner) : leg(owner) {}
  std::uint64_t offset = 0;
  std::uint32_t count = 0;
  slice_route route{};
  Leg leg;
  bool done = false;
};
// Cuts [offset, offset + count) at every boundary, by the routing core, and by the block map of a file that
// has one.
std::vector<std::unique_ptr<Piece>> cut_into_pieces(Services& services, const CallFacts& facts,
                                                    LegOwner& owner);

// A record of `body_size` bytes begun: mark, xid, accepted, success, status 0.
class ReplyWriter {
 public:
  ReplyWriter(Xid xid, std::size_t reserve);
  rpc::XdrWriter& body() { return out_; }
  // The record, with `more` bytes of data announced behind what was written.
  Slice finish(ChunkPool& pool, std::size_t more);

 private:
  rpc::XdrWriter out_;
};

class PlainCall : public Call {
 public:
  PlainCall(Services& services, Client& client, CallFacts facts, const slice_route& route, ByteView arguments,
            const SliceChain& rest);

 private:
  void on_reply(Leg& leg, const SliceChain& reply) override;

  Leg leg_;
};

class ReadCall : public Call {
 public:
  // Starts at once. The range crosses at least no boundary or some: one piece or more.
  ReadCall(Services& services, Client& client, CallFacts facts);
  void start();

 private:
  struct Part {
    SliceChain data;
    std::uint32_t count = 0;
    bool eof = false;
  };
  void send(std::size_t index, std::uint64_t offset, std::uint32_t count);
  void on_reply(Leg& leg, const SliceChain& reply) override;
  RecordHandler::Take on_reply_head(Leg& leg, ByteView head, std::size_t total) override;
  void on_reply_piece(Leg& leg, const Slice& piece) override;
  void on_reply_end(Leg& leg) override;
  void on_reply_broken(Leg& leg) override;
  void on_single(const SliceChain& reply);
  void on_rest(const SliceChain& reply);
  void on_part(std::size_t index, const SliceChain& reply);
  void join();

  std::vector<std::unique_ptr<Piece>> pieces_;
  std::vector<Part> parts_;
  std::size_t left_ = 0;
  std::uint8_t fattr_[SLICE_FATTR_BYTES];
  bool has_fattr_ = false;
  nfs3::Status failed_status_ = nfs3::Status::kOk;
  std::size_t failed_at_ = SIZE_MAX;
  // A reply given to the client piece by piece.
  OutQueue::StreamId stream_ = 0;
  std::size_t skip_ = 0;       // bytes of the server's header still to come
  std::size_t forwarded_ = 0;  // bytes of data and padding given to the client
  std::uint32_t announced_ = 0;
  bool resumed_ = false;
};

class WriteCall : public Call {
 public:
  WriteCall(Services& services, Client& client, CallFacts facts);
  // `data_at`: where the data begins in the record.
  void start(std::size_t data_at);
  void on_request_piece(const Slice& piece) override;

 private:
  struct Part {
    SliceChain data;
    WriteReply reply;
    std::uint32_t status = 0;
    bool failed = false;
  };
  void take(Slice piece);
  void advance();
  void send(std::size_t index);
  void on_reply(Leg& leg, const SliceChain& reply) override;
  void join();

  std::vector<std::unique_ptr<Piece>> pieces_;
  std::vector<Part> parts_;
  std::size_t skip_ = 0;     // bytes before the data still to come
  std::size_t current_ = 0;  // piece that is being filled
  std::size_t left_ = 0;
  std::uint64_t hint_ = 0;
  std::uint8_t fattr_[SLICE_FATTR_BYTES];
  bool has_fattr_ = false;
};

}  // namespace slice::proxy

#endif  // SLICE_CONTROL_PROXY_CALL_H
