// PlainCall: a call that one server answers as it is.
#ifndef SLICE_PROXY_CALLS_PLAIN_CALL_H
#define SLICE_PROXY_CALLS_PLAIN_CALL_H

#include "proxy/calls/call.h"

namespace slice::proxy {

class PlainCall : public Call {
 public:
  PlainCall(Services& services, Client& client, CallFacts facts, const slice_route& route, ByteView arguments,
            const BufferChain& rest);

 private:
  void on_reply(Leg& leg, const BufferChain& reply) override;
  std::string waits_for() const override { return leg_.about(); }

  Leg leg_;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_CALLS_PLAIN_CALL_H
