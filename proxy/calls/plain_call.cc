#include "proxy/calls/plain_call.h"

#include <algorithm>

namespace slice::proxy {

PlainCall::PlainCall(Services& services, Client& client, CallFacts facts, const slice_route& route,
                     ByteView arguments, const BufferChain& rest)
    : Call(services, client, std::move(facts)), leg_(*this) {
  std::size_t reply = facts_.procedure == SLICE_NFS_READDIR || facts_.procedure == SLICE_NFS_READDIRPLUS
                          ? std::min<std::size_t>(facts_.count, kMaxRecord)
                          : 0;
  charge(arguments.size() + rest.size() + reply);
  dispatch(leg_, route, arguments, rest);
}

void PlainCall::on_reply(Leg&, const BufferChain& reply) {
  PatchedReply patched;
  finish(rewrite(reply, patched));
}

}  // namespace slice::proxy
