// SecuredCalls: calls of users who come by Kerberos (RPCSEC_GSS, RFC 2203), for one worker. Each is verified
// and opened, and goes on as a call of that user by AUTH_SYS, by the way that all calls go; its reply is
// closed for the user. Servers know of it by the proxy's verifier alone (docs/formats/auth-slice.md).
#ifndef SLICE_PROXY_CALLS_SECURED_CALLS_H
#define SLICE_PROXY_CALLS_SECURED_CALLS_H

#include <memory>
#include <optional>
#include <unordered_map>

#include "proxy/calls/services.h"
#include "proxy/gss/gss_service.h"

namespace slice::proxy {

class CallRouter;
class Client;

class SecuredCalls {
 public:
  // `gss`: null where nobody can come by Kerberos. All of it outlives the calls.
  SecuredCalls(Services& services, CallRouter& router, GssService* gss);
  SecuredCalls(const SecuredCalls&) = delete;
  SecuredCalls& operator=(const SecuredCalls&) = delete;

  // Whether a message, of which this is the head, is one of these.
  static bool is_one(ByteView head);
  // A whole message, as CallRouter::take().
  bool take(Client& client, const BufferChain& message, ByteView head, std::uint32_t largest_transfer);
  // What one is answered with of which only the head is there, where nobody will take it. Its rest need not
  // be kept.
  std::optional<Buffer> refuse(const Client& client, ByteView head) const;

 private:
  class Opened;
  class Making;
  // What the head says, and whose context it is.
  struct Head {
    slice_request call{};
    rpc::GssCredential credential;
    std::shared_ptr<GssContext> context;  // none: of INIT
  };
  // Nothing: it is to be answered so.
  std::optional<rpc::AuthStat> read(const Client& client, ByteView head, Head& out) const;
  std::optional<rpc::AuthStat> verify(const Client& client, ByteView head, const Head& of) const;
  bool init(Client& client, const BufferChain& message, const Head& head);
  void answer_init(Client& client, Xid xid, const GssService::Made& made);
  void destroy(Client& client, const Head& head);
  // The arguments, opened; nothing: they are not the user's.
  std::optional<BufferChain> open(const BufferChain& message, std::size_t at, const Head& head) const;
  void refuse_body(Client& client, const Head& head);
  void deny(Client& client, Xid xid, rpc::AuthStat why);

  Services& services_;
  CallRouter& router_;
  GssService* const gss_;
  // First messages that wait for their contexts; those of clients that are gone are not there any more.
  using Waiting = std::unordered_map<std::uint64_t, Making*>;
  std::shared_ptr<Waiting> waiting_ = std::make_shared<Waiting>();
  std::uint64_t made_ = 0;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_CALLS_SECURED_CALLS_H
