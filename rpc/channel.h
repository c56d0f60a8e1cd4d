// Channel: how one process calls another. The socket one is rpc/client.h; rpc/in_process.h joins dispatchers
// in one process, for tests and simulation.
#ifndef SLICE_RPC_CHANNEL_H
#define SLICE_RPC_CHANNEL_H

#include <chrono>
#include <optional>

#include "common/loop.h"
#include "common/result.h"
#include "common/task.h"
#include "rpc/auth.h"
#include "rpc/endpoint.h"

namespace slice::rpc {

// Whom a call is made for, where that is not its sender: docs/formats/auth-slice.md. Only channels with the
// ensemble's key can say it.
struct OnBehalf {
  Endpoint client;  // none: the ensemble itself, an internal call
  Xid xid;          // of the client's call
  std::uint8_t relays = 0;
  bool datagram = false;
  LayoutStamp layout;
  CallSecurity security;
  bool own = false;  // an internal call nevertheless: as SliceVerifier::own
};

// Whether somebody waits for a call, as a client does whose WRITE is passed on, or nobody in particular, as
// for the copies of sites that move. These travel apart, so that each has its share of the link.
enum class Urgency { kWaitedFor, kBackground };

struct Request {
  Endpoint to;
  std::uint32_t program = 0;
  std::uint32_t version = 0;
  std::uint32_t procedure = 0;
  Buffer arguments;
  // The whole time to wait, reconnecting and sending again inside it; so a peer may see a request twice, and
  // every internal procedure is idempotent.
  Duration timeout = std::chrono::seconds(5);
  // kUnavailable already when connections were refused for so long: the peer's host is there, and no process
  // of it listens. 0: the time-out alone counts.
  Duration refused_patience = Duration(0);
  // The answer may be as long as data is; arguments say so by their size. Both travel apart from short calls.
  bool long_answer = false;
  Urgency urgency = Urgency::kWaitedFor;
  std::optional<AuthSys> credential;  // none: AUTH_NONE
  OnBehalf on_behalf;
};

// A reply's results; the bytes live as long as this.
struct Response {
  Buffer record;
  std::size_t results_at = 0;
  ByteView results() const { return record.view().subspan(results_at); }
};

class Channel {
 public:
  Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  virtual ~Channel() = default;
  // kTimedOut, kUnavailable: no answer within the time-out. kDenied: the peer refused the verifier.
  // kInvalid: the peer says the arguments are garbage or knows no such procedure. kIo: the peer's SYSTEM_ERR.
  // kTooLarge: it is longer than servers take (kMaxCall), and was not sent.
  virtual Task<Result<Response>> call(Request request) = 0;
};

}  // namespace slice::rpc

#endif  // SLICE_RPC_CHANNEL_H
