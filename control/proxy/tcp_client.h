// TcpClient: one client's connection to the virtual address. Reads records, makes calls of them, writes
// replies whole and in the order they come. Reading stops while the client's calls and unread replies hold
// too much memory, and while the worker as a whole does.
#ifndef SLICE_CONTROL_PROXY_TCP_CLIENT_H
#define SLICE_CONTROL_PROXY_TCP_CLIENT_H

#include "control/proxy/call_router.h"

namespace slice::proxy {

// Memory of a worker's calls and buffers, in bytes.
struct Budget {
  std::size_t limit = 256 << 20;
  std::size_t client_limit = 32 << 20;  // of one connection
  std::size_t charged = 0;
  const ChunkPool* pool = nullptr;
  bool exhausted() const { return charged > limit || pool->bytes_in_use() > limit; }
  bool overdrawn() const { return pool->bytes_in_use() > 2 * limit; }
};

class TcpClient : public Client, private RecordHandler, private Flushable, public ListHook<struct PausedTag> {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // The connection is closed; the owner destroys it later, not inside this call.
    virtual void on_closed(TcpClient& client) = 0;
    virtual void on_paused(TcpClient& client) = 0;
  };
  TcpClient(Services& services, CallRouter& router, Budget& budget, Owner& owner, int fd, rpc::Endpoint peer);
  ~TcpClient() override;

  // Once a second: ends it where the client neither sends the rest of a record nor reads its replies.
  void tick(MonoTime now);
  // Reads again where there is memory for it.
  void try_resume();
  void close(std::string_view why);

  rpc::Endpoint endpoint() const override { return peer_; }
  void reply(Call& call, const SliceChain& record) override;
  bool takes_pieces() const override { return true; }
  OutQueue::StreamId open_reply() override { return out_.open(); }
  void append_reply(OutQueue::StreamId stream, const Slice& piece) override;
  void close_reply(OutQueue::StreamId stream) override;
  bool abort_reply(OutQueue::StreamId stream) override { return out_.abort(stream); }
  void give_up(std::string_view why) override { close(why); }
  void charge(std::size_t bytes) override;
  void release(std::size_t bytes) override;

 private:
  void on_event(std::uint32_t events);
  void read();
  void flush() override;
  void watch();
  bool over_limit() const;
  Take on_head(ByteView head, std::size_t total) override;
  void on_record(const SliceChain& record) override;
  void on_piece(const Slice& piece) override;
  void on_end() override;

  Services& services_;
  CallRouter& router_;
  Budget& budget_;
  Owner& owner_;
  int fd_;
  rpc::Endpoint peer_;
  RecordReader reader_;
  OutQueue out_;
  Call* arriving_ = nullptr;  // whose request comes in pieces
  std::size_t charged_ = 0;
  bool blocked_ = false;  // the socket takes no more now
  std::uint32_t watched_ = 0;
  MonoTime read_at_, wrote_at_;
  const char* trouble_ = nullptr;
};

}  // namespace slice::proxy

#endif  // SLICE_CONTROL_PROXY_TCP_CLIENT_H
