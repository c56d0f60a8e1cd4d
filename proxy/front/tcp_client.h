// TcpClient: one client's connection to the virtual address. Reads records, makes calls of them, writes
// replies whole and in the order they come. What it may hold, and for how long, is rpc::Admission's matter.
#ifndef SLICE_PROXY_FRONT_TCP_CLIENT_H
#define SLICE_PROXY_FRONT_TCP_CLIENT_H

#include "proxy/calls/call_router.h"
#include "proxy/front/tls_offer.h"
#include "rpc/admission.h"

namespace slice::proxy {

// What a worker's buffers have of the memory that clients may have. Chunks hold more than the bytes in them
// that somebody needs; where there is much of that, bytes are copied to room of their own.
struct Budget {
  std::size_t limit = 256 << 20;  // bytes
  const ChunkPool* pool = nullptr;
  bool pressed() const { return pool->bytes_in_use() > limit / 2; }
  bool exhausted() const { return pool->bytes_in_use() > limit; }
  bool overdrawn() const { return pool->bytes_in_use() > 2 * limit; }
};

class TcpClient : public Client, public rpc::Admission::Member, private RecordHandler, private Flushable {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // The connection is closed; the owner destroys it later, not inside this call.
    virtual void on_closed(TcpClient& client) = 0;
  };
  TcpClient(Services& services, CallRouter& router, const Budget& budget, TlsOffer& offer, Owner& owner,
            std::unique_ptr<Stream> stream, rpc::Endpoint peer);
  ~TcpClient() override;

  // When it has joined the worker's admission.
  void start();
  void close(std::string_view why);

  rpc::Endpoint endpoint() const override { return peer_; }
  CallSecurity security() const override { return {.transport = transport_}; }
  bool may_be_secured() const override { return true; }
  bool may_begin_tls() const override;
  void begin_tls() override;
  void reply(Call& call, const BufferChain& record) override;
  bool takes_pieces() const override { return true; }
  OutQueue::StreamId open_reply() override { return out_.open(); }
  void append_reply(OutQueue::StreamId stream, const BufferRef& piece) override;
  void close_reply(OutQueue::StreamId stream) override;
  bool abort_reply(OutQueue::StreamId stream) override { return out_.abort(stream); }
  void give_up(std::string_view why) override { close(why); }
  void charge(std::size_t bytes) override { Member::hold(bytes); }
  void release(std::size_t bytes) override { Member::release(bytes); }
  void set_aside(std::size_t bytes) override { Member::set_aside(bytes); }
  void take_back(std::size_t bytes) override { Member::take_back(bytes); }
  void call_begins() override { Member::call_begins(); }
  void call_ends() override { Member::call_ends(); }

 private:
  Standing standing() const override;
  void on_room() override;
  void on_end(std::string_view why) override { close(why); }
  void on_event(std::uint32_t ready);
  void read();
  void flush() override;
  void watch();
  BufferRef keep_little(BufferRef bytes);
  void pause_at_limit();
  void resume();
  void go_over_to_tls();
  bool goes_on_in_clear() const { return wants_tls_ && reader_.kept() > 0; }
  void note_handshake();
  void close_broken();
  void count_memory();
  Take on_head(ByteView head, std::size_t total) override;
  void on_record(const BufferChain& record) override;
  void on_piece(const BufferRef& piece) override;
  void on_end() override;

  Services& services_;
  CallRouter& router_;
  const Budget& budget_;
  TlsOffer& offer_;
  Owner& owner_;
  std::unique_ptr<Stream> stream_;  // null: closed
  rpc::Endpoint peer_;
  RecordReader reader_;
  OutQueue out_;
  Call* arriving_ = nullptr;       // whose request comes in pieces
  std::optional<Buffer> refusal_;  // of the record that is being skipped
  std::size_t counted_ = 0;        // memory of reader_ and out_, as far as it is counted
  bool blocked_ = false;           // the socket takes no more now
  bool wants_tls_ = false;         // it has been told that it may begin, or will be
  TransportSecurity transport_ = TransportSecurity::kNone;
  std::uint32_t watched_ = 0;
  const char* trouble_ = nullptr;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_FRONT_TCP_CLIENT_H
