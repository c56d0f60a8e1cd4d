// How a Request becomes the bytes of a call, and the bytes of a reply a Response: what all channels share.
#ifndef SLICE_RPC_CALL_H
#define SLICE_RPC_CALL_H

#include "common/trace.h"
#include "rpc/channel.h"
#include "rpc/message.h"

namespace slice::rpc {

// Who calls: what a call between members of the ensemble says of its sender. Others' calls carry an AUTH_NONE
// verifier.
struct Caller {
  bool member = false;
  std::uint32_t sender = 0;
  Generation generation;
};

// The whole call, behind `headroom` uninitialised bytes for a record mark.
Buffer encode_request(const Request& request, Xid xid, const Caller& caller, std::size_t headroom);

// kTooLarge where a call of so many bytes is more than servers take.
Status check_call_size(const Request& request, std::size_t size);

// That call, as a step of the operation that makes it.
TraceStep step_of(const Request& request, Xid xid);

// A reply's record (from byte `at` on) as its caller gets it; errors as Channel::call() lists them.
Result<Response> open_response(Buffer record, std::size_t at);

// That the callee does not know the caller's key; and whether an error is that.
Error other_key();
bool keys_differ(const Error& error);

}  // namespace slice::rpc

#endif  // SLICE_RPC_CALL_H
