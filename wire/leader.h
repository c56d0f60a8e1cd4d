// LEADER of the manager program: which of an ensemble's managers leads. Every manager answers it, also one
// that does not lead, which answers all other procedures with SYSTEM_ERR. No arguments.
#ifndef SLICE_WIRE_LEADER_H
#define SLICE_WIRE_LEADER_H

#include <cstdint>
#include <string>
#include <vector>

#include "common/bytes.h"
#include "rpc/xdr.h"

namespace slice::wire {

// One of the places where managers share their state: a member of etcd.
struct StorePlace {
  std::string place;    // its URL
  std::string trouble;  // what is wrong with it, as this manager sees it; empty: nothing
};
inline constexpr std::uint32_t kMaxStorePlaces = 16;

struct LeaderResult {
  bool leads = false;          // this manager does
  std::uint64_t since_ms = 0;  // for how long it has
  std::string leader;          // the name of who does, as this one knows; empty: nobody, or it does not know
  std::string trouble;         // why this one cannot lead; empty: it could, or does
  std::vector<StorePlace> places;  // none: the managers share nothing, and there is one
};

void encode(rpc::XdrWriter& out, const LeaderResult& result);
bool decode(ByteView bytes, LeaderResult& out);

}  // namespace slice::wire

#endif  // SLICE_WIRE_LEADER_H
