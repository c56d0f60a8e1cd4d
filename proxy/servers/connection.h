// BackendConnection: one TCP connection from a worker to a server, shared by the worker's clients.
#ifndef SLICE_PROXY_SERVERS_CONNECTION_H
#define SLICE_PROXY_SERVERS_CONNECTION_H

#include "proxy/servers/leg.h"
#include "proxy/servers/plumbing.h"
#include "proxy/stream/flusher.h"
#include "proxy/stream/out_queue.h"
#include "proxy/stream/record_reader.h"
#include "rpc/endpoint.h"

namespace slice::proxy {

class BackendConnection : private RecordHandler, private Flushable {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void on_connected(BackendConnection& connection) = 0;
    // It is closed; every leg that was on it is in `orphans`, to be sent again. The listener destroys the
    // connection later, not inside this call.
    virtual void on_broken(BackendConnection& connection, IntrusiveList<Leg, LegTag>& orphans,
                           std::string_view why) = 0;
  };
  BackendConnection(Plumbing plumbing, rpc::Endpoint to, Listener& listener);
  ~BackendConnection() override;
  BackendConnection(const BackendConnection&) = delete;
  BackendConnection& operator=(const BackendConnection&) = delete;

  // Starts connecting. False where even that fails.
  bool open();
  void send(Leg& leg);
  // A request whose bytes still come: the connection takes no other until end_upload().
  void begin_upload(Leg& leg);
  void upload(const BufferRef& piece);
  void end_upload();
  bool uploading() const { return upload_ != nullptr; }
  // The leg is destroyed or sent elsewhere: its reply, if it comes, is thrown away.
  void forget(Leg& leg);
  void fail(std::string_view why);

  bool connected() const { return state_ == State::kUp; }
  bool closed() const { return state_ == State::kClosed; }
  std::size_t queued() const { return out_.bytes(); }
  std::size_t pending() const { return pending_count_; }
  // How long nothing came although replies are due, or a server does not take what is sent.
  Duration silent_for(MonoTime now) const;
  // Breaks it where a reply is overdue, sends again what may have been dropped as a duplicate.
  void tick(MonoTime now);

 private:
  enum class State { kClosed, kConnecting, kUp };
  void on_event(std::uint32_t ready);
  void read();
  std::string_view take(BufferRef bytes);
  std::string_view greet(rpc::Session& session, BufferRef& bytes);
  std::string_view open_some(rpc::Opener& opener, BufferRef& bytes);
  void flush() override;
  void watch_writes(bool wanted);
  Leg* leg_of(ByteView head);
  Take on_head(ByteView head, std::size_t total) override;
  void on_record(const BufferChain& record) override;
  void on_piece(const BufferRef& piece) override;
  void on_end() override;

  Plumbing plumbing_;
  rpc::Endpoint to_;
  Listener& listener_;
  std::unique_ptr<Stream> stream_;  // while it is not closed
  State state_ = State::kClosed;
  bool writes_watched_ = false;
  OutQueue out_;
  BufferChain unproven_;  // of a frame that has not come whole
  RecordReader reader_;
  IntrusiveList<Leg, LegTag> sent_;
  std::size_t pending_count_ = 0;
  Leg* streaming_ = nullptr;  // whose reply is coming in pieces
  Leg* upload_ = nullptr;
  OutQueue::StreamId upload_stream_ = 0;
  MonoTime opened_at_{}, heard_at_{};
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_SERVERS_CONNECTION_H
