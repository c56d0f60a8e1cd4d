// NSM version 1, the status monitor beside NLM (X/Open XNFS, chapter 11): a host that was restarted says so
// to all whose locks it had.
#ifndef SLICE_WIRE_NSM1_H
#define SLICE_WIRE_NSM1_H

#include <cstdint>
#include <string_view>

#include "common/bytes.h"
#include "rpc/xdr.h"

namespace slice::nsm1 {

inline constexpr std::uint32_t kProgram = 100024;
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::size_t kMaxName = 1024;  // SM_MAXSTRLEN: bytes

enum class Procedure : std::uint32_t {
  kNull = 0,
  kStat = 1,
  kMonitor = 2,
  kUnmonitor = 3,
  kUnmonitorAll = 4,
  kSimulateCrash = 5,
  kNotify = 6
};

// A host's number grows with each start, and is odd while it runs.
struct NotifyArgs {
  std::string_view name;  // a view of what was decoded
  std::int32_t state = 0;
};
void encode(rpc::XdrWriter& out, const NotifyArgs& args);
bool decode(ByteView bytes, NotifyArgs& out);

}  // namespace slice::nsm1

#endif  // SLICE_WIRE_NSM1_H
