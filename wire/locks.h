// The locks program, between proxies and directory servers: what NLM's calls for one file do not cover
// (docs/locks.md). Directory servers serve FREE and WAITS, proxies GRANT.
#ifndef SLICE_WIRE_LOCKS_H
#define SLICE_WIRE_LOCKS_H

#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"
#include "rpc/xdr.h"
#include "wire/nlm4.h"

namespace slice::wire {

enum class LocksProcedure : std::uint32_t { kFree = 1, kGrant = 2, kWaits = 3 };

// FREE: a client has none of the locks any more that it has on files of these directory sites, but for those
// that its run with NSM's number `keep` took.
struct FreeLocksArgs {
  IpAddress address;
  std::string host;  // as it calls itself
  std::optional<std::int32_t> keep;
  std::vector<std::uint32_t> sites;
};
struct FreeLocksResult {
  std::vector<std::uint32_t> freed;  // those of the sites that are this server's: done, durably
};

// GRANT: a client that waits is to be told that it has the lock, by this run of the proxy with the virtual
// address and no other: who asks must know whether a call may have reached the client before. 0: asks for the
// run.
struct GrantArgs {
  std::uint64_t run = 0;
  IpAddress address;
  Buffer call;  // NLM's TestArgs, as GRANTED takes them
};
enum class Granting : std::uint32_t {
  kAnswered = 0,     // `status` is what the client said
  kNotHere = 1,      // another proxy has the address
  kUnreachable = 2,  // nothing was sent: the client's rpcbind does not say where its lock manager is
  kNoAnswer = 3,     // it may have been told
  kHere = 4          // nothing was asked for but `run`
};
struct GrantResult {
  Granting how = Granting::kNotHere;
  nlm4::Status status = nlm4::Status::kDenied;
  std::uint64_t run = 0;
};

// WAITS: what these wait for at this directory server, directly or by way of one another, and they
// themselves.
inline constexpr std::size_t kMaxLockers = 1024;
struct LockerName {
  IpAddress address;
  std::string host;
  std::int32_t process = 0;
  std::string handle;
};
struct WaitsArgs {
  std::vector<LockerName> who;
};
struct WaitsResult {
  std::vector<LockerName> leads_to;
};

#define SLICE_WIRE_LOCKS_MESSAGES(X) \
  X(FreeLocksArgs) X(FreeLocksResult) X(GrantArgs) X(GrantResult) X(WaitsArgs) X(WaitsResult)
#define X(Message)                                          \
  void encode(rpc::XdrWriter& out, const Message& message); \
  bool decode(ByteView bytes, Message& out);
SLICE_WIRE_LOCKS_MESSAGES(X)
#undef X

}  // namespace slice::wire

#endif  // SLICE_WIRE_LOCKS_H
