// internal_call: one call of an internal program, from typed arguments to typed results.
//
//   auto result = co_await internal_call<wire::FetchResult>(channel, to, wire::kAuthorityProgram,
//                                                           wire::AuthorityProcedure::kFetch, args);
#ifndef SLICE_SERVICE_INTERNAL_CALL_H
#define SLICE_SERVICE_INTERNAL_CALL_H

#include <chrono>
#include <cstdint>
#include <utility>

#include "rpc/channel.h"
#include "rpc/xdr.h"
#include "wire/internal.h"

namespace slice::service {

template <class R>
Task<Result<R>> internal_call_encoded(rpc::Channel& channel, rpc::Request request) {
  auto response = co_await channel.call(std::move(request));
  if (!response) co_return fail(std::move(response).error());
  R result;
  if (!decode(response->results(), result)) co_return fail(Errc::kInvalid, "a reply that does not decode");
  co_return result;
}

template <class Procedure, class Args>
rpc::Request internal_request(rpc::Endpoint to, std::uint32_t program, Procedure procedure, const Args& args,
                              Duration timeout, Duration refused_patience) {
  rpc::XdrWriter out;
  encode(out, args);
  rpc::Request request;
  request.to = to;
  request.program = program;
  request.version = wire::kInternalVersion;
  request.procedure = static_cast<std::uint32_t>(procedure);
  request.arguments = out.take();
  request.timeout = timeout;
  request.refused_patience = refused_patience;
  return request;
}

// `args` are encoded before this returns, so they need not live longer. R must hold no views. Errors are the
// channel's; a reply that does not decode is kInvalid. A status inside R is the caller's to look at.
template <class R, class Procedure, class Args>
Task<Result<R>> internal_call(rpc::Channel& channel, rpc::Endpoint to, std::uint32_t program,
                              Procedure procedure, const Args& args,
                              Duration timeout = std::chrono::seconds(5),
                              Duration refused_patience = Duration(0)) {
  return internal_call_encoded<R>(channel,
                                  internal_request(to, program, procedure, args, timeout, refused_patience));
}

// For procedures without arguments, and without results.
struct NoArguments {};
inline void encode(rpc::XdrWriter&, const NoArguments&) {}
inline bool decode(ByteView bytes, NoArguments&) {
  return bytes.empty();
}
struct NoResults {};
inline void encode(rpc::XdrWriter&, const NoResults&) {}
inline bool decode(ByteView bytes, NoResults&) {
  return bytes.empty();
}

}  // namespace slice::service

#endif  // SLICE_SERVICE_INTERNAL_CALL_H
