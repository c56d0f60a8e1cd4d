// Dispatcher: from the bytes of one call to the bytes of its reply, whatever carried them. Socket servers
// (rpc/server.h) and the in-process network (rpc/in_process.h) feed it.
#ifndef SLICE_RPC_DISPATCHER_H
#define SLICE_RPC_DISPATCHER_H

#include <optional>
#include <vector>

#include "common/ids.h"
#include "common/log.h"
#include "common/loop.h"
#include "common/metrics.h"
#include "common/task.h"
#include "rpc/auth.h"
#include "rpc/message.h"
#include "rpc/refusals.h"

namespace slice::rpc {

// One call as a program sees it. Views stay valid until the program's task ends.
struct Call {
  Xid xid;      // the client's, also for a call that was forwarded, or passed on by its own host
  Xid carried;  // of the message itself: as its sender knows it
  std::uint32_t procedure = 0;
  bool has_auth_sys = false;  // false: AUTH_NONE, `credential` is nobody
  AuthSys credential;
  Endpoint client;           // from a forwarded call's verifier, else the peer; its port from kAuthClient
  bool internal = false;     // a member's of the ensemble, and not forwarded for a client
  bool own = false;          // with internal: `client` and `xid` are what its sender names it by
  bool forwarded = false;    // by a proxy or server of the ensemble, on behalf of `client`
  std::uint8_t relays = 0;   // with internal or forwarded: servers that passed it on, since it was not theirs
  bool datagram = false;     // the client sent it over UDP: the whole reply must fit a datagram
                             // (nfs3::kMaxUdpTransfer)
  CallSecurity security;     // with forwarded: how the client's call came
  std::uint32_t sender = 0;  // with internal or forwarded: the sending process's index
  Generation generation;     // with internal or forwarded: of the sender's tables
  LayoutStamp layout;        // likewise; of a WRITE
  ByteView arguments;
};

enum class Outcome {
  kReply,        // `results` holds the results
  kGarbage,      // arguments do not decode
  kNoProcedure,  //
  kError,        // SYSTEM_ERR
  kDenied,       // AUTH_ERROR, too weak: an internal program called from outside
  kDrop,         // no answer at all: a duplicate of a call in progress
};

class Program {
 public:
  Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  virtual ~Program() = default;
  virtual std::uint32_t number() const = 0;
  virtual std::uint32_t version() const = 0;
  // Handles one call. `results` already holds the reply header: append only (rewind() to its size at entry).
  // `call` and `results` live until the task ends. Many calls of one program may be under way at once.
  virtual Task<Outcome> handle(const Call& call, XdrWriter& results) = 0;
};

// How a call came.
struct Carrier {
  // By a session, or from this process: whoever sent it is a member of the ensemble. Others' calls are
  // refused where they carry a member's verifier.
  bool member = false;
  bool datagram = false;
};

class Dispatcher {
 public:
  explicit Dispatcher(Metrics& metrics);

  // The program must outlive the dispatcher. Procedure 0 of it (NULL, RFC 5531 section 12) is answered by
  // the dispatcher for anybody.
  void add(Program& program);

  // The reply to a record, without record mark; nothing where the bytes are no call, or the program drops it.
  // `headroom` bytes are left free before the reply, for a record mark.
  Task<std::optional<Buffer>> dispatch(Buffer record, Endpoint peer, std::size_t headroom,
                                       Carrier carrier = {});

 private:
  Program* find(std::uint32_t program, std::uint32_t version, XdrWriter& out, Xid xid);
  AuthStat authenticate(const CallHeader& header, Endpoint peer, Carrier carrier, Call& call);
  void encode_refusal(Outcome outcome, const CallHeader& header, const Call& call, XdrWriter& out);
  AuthStat read_verifier(const CallHeader& header, Carrier carrier, Call& call);
  AuthStat read_client_verifier(const CallHeader& header, Carrier carrier, Call& call);

  Refusals refusals_;
  LogLimiter garbage_log_{5};
  Counter& calls_;
  Counter& not_calls_;
  Counter& denied_;
  Counter& garbage_;
  Counter& no_procedure_;
  Counter& errors_;
  Counter& dropped_;
  std::vector<Program*> programs_;
};

}  // namespace slice::rpc

#endif  // SLICE_RPC_DISPATCHER_H
