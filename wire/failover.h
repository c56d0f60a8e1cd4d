// Failover: a server with a backing set (wire/backing.h) may run on several hosts, one at a time. The
// manager's procedures STANDBY, FAILOVER and STANDBYS (docs/failover.md).
#ifndef SLICE_WIRE_FAILOVER_H
#define SLICE_WIRE_FAILOVER_H

#include <chrono>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/loop.h"
#include "rpc/endpoint.h"
#include "rpc/xdr.h"

namespace slice::wire {

// A run of a server asks so often whether it is to serve; one that asked longer ago than kStandbyPatience
// does not stand by any more.
inline constexpr Duration kStandbyInterval = std::chrono::milliseconds(100);
inline constexpr Duration kStandbyPatience = std::chrono::seconds(1);
inline constexpr std::size_t kMaxStandbys = 4096;  // of one answer

// STANDBY: a run of a server, which serves nothing, would serve at this endpoint.
struct StandbyArgs {
  std::uint32_t server = 0;
  rpc::Endpoint endpoint;
  std::uint64_t instance = 0;  // as in BACKING_CLAIM
};
struct StandbyResult {
  bool take = false;     // it is to serve: the tables have the server there
  rpc::Endpoint serves;  // where the tables have it
};

// FAILOVER: the server is to be served by a run that stands by at this address, or, where that is none, at
// any. The answer comes when the tables say so, durably; the run that serves hears of it, and lets go.
struct FailoverArgs {
  std::string name;
  IpAddress address;
};
struct FailoverResult {
  std::string refused;   // why nothing was changed; empty: it is so
  rpc::Endpoint serves;  // where the tables of this generation have the server
  Generation generation;
};

struct Standby {
  std::uint32_t server = 0;
  rpc::Endpoint endpoint;
  std::uint64_t age_ms = 0;  // since it asked last
};
struct StandbysResult {
  std::vector<Standby> standbys;  // by server and endpoint; those that stand by
};

// clang-format off
#define SLICE_WIRE_FAILOVER_MESSAGES(X) \
  X(StandbyArgs) \
  X(StandbyResult) \
  X(FailoverArgs) \
  X(FailoverResult) \
  X(StandbysResult)
// clang-format on
#define X(Message)                                          \
  void encode(rpc::XdrWriter& out, const Message& message); \
  bool decode(ByteView bytes, Message& out);
SLICE_WIRE_FAILOVER_MESSAGES(X)
#undef X

}  // namespace slice::wire

#endif  // SLICE_WIRE_FAILOVER_H
