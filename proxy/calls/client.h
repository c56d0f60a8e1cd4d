// Client: where calls come from.
#ifndef SLICE_PROXY_CALLS_CLIENT_H
#define SLICE_PROXY_CALLS_CLIENT_H

#include <functional>
#include <string>
#include <string_view>

#include "common/config.h"
#include "common/loop.h"
#include "proxy/stream/intrusive_list.h"
#include "proxy/stream/out_queue.h"
#include "rpc/endpoint.h"

namespace slice::proxy {

class Call;
struct CallTag {};

// What a client has under way. It ends with its client, without a reply.
class UnderWay : public ListHook<CallTag> {
 public:
  explicit UnderWay(MonoTime began_at) : began(began_at) {}
  virtual ~UnderWay() = default;
  // For the log: what it is, and what it waits for.
  virtual std::string about() const = 0;

  const MonoTime began;
  bool told = false;  // that it takes long
};

// Where a call came from: a TCP connection or a datagram's sender. Its calls end with it.
class Client {
 public:
  Client() = default;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  virtual ~Client();

  virtual rpc::Endpoint endpoint() const = 0;
  virtual CallSecurity security() const { return {}; }
  // Whether its users may come by Kerberos (SecuredCalls): not by datagrams.
  virtual bool may_be_secured() const { return false; }
  // Whether TLS can be begun now; and that it is wanted, as soon as what was answered so far is sent.
  virtual bool may_begin_tls() const { return false; }
  virtual void begin_tls() {}
  // Takes a whole reply, with its record mark. `call` ends right after.
  virtual void reply(Call& call, const BufferChain& record) = 0;
  // Whether a long reply may be given piece by piece; only then the following are called.
  virtual bool takes_pieces() const { return false; }
  virtual OutQueue::StreamId open_reply() { return 0; }
  virtual void append_reply(OutQueue::StreamId, const BufferRef&) {}
  virtual void close_reply(OutQueue::StreamId) {}
  // As OutQueue::abort.
  virtual bool abort_reply(OutQueue::StreamId) { return true; }
  // A reply that was begun cannot be finished.
  virtual void give_up(std::string_view) {}
  // Memory that the client's calls hold or will need for replies; and their number.
  virtual void charge(std::size_t) {}
  virtual void release(std::size_t) {}
  // A call that holds so much waits for a server that cannot be reached; or does no longer.
  virtual void set_aside(std::size_t) {}
  virtual void take_back(std::size_t) {}
  virtual void call_begins() {}
  virtual void call_ends() {}

  // One more that ends with it, unless it ends before.
  void adopt(UnderWay& one) { calls_.push_back(one); }
  // Ends every call under way, without replies.
  void drop_calls();
  bool has_calls() const { return !calls_.empty(); }
  // Of those under way, of which there is one at least.
  const UnderWay& oldest() const { return *calls_.front(); }
  // All that began before then and were not told of; they are from now on.
  void tell_late(MonoTime then, const std::function<void(const UnderWay&)>& tell);

 private:
  IntrusiveList<UnderWay, CallTag> calls_;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_CALLS_CLIENT_H
