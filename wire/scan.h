// The scan program of slice-dird: the stored cells of a directory site, as they lie in its store
// (docs/formats/cells.md). For the checker of the name space and for backups; nothing is changed by it.
#ifndef SLICE_WIRE_SCAN_H
#define SLICE_WIRE_SCAN_H

#include <string>
#include <vector>

#include "common/ids.h"
#include "common/loop.h"
#include "wire/internal.h"
#include "wire/nfs3.h"

namespace slice::wire {

enum class ScanProcedure : std::uint32_t { kNull = 0, kScan = 1, kSnapshot = 2 };

inline constexpr std::size_t kMaxScanKey = 64;           // bytes
inline constexpr std::size_t kMaxScanValue = 128 << 10;  // bytes
inline constexpr std::size_t kMaxScanKeys = 256;
inline constexpr std::size_t kMaxScanCells = 32768;
inline constexpr std::uint32_t kMaxScanBytes = 1 << 20;

// SCAN: the values of `keys`, and the cells with keys in [begin, end) from the first on, about `limit` bytes
// of them, but one at least; all as they were at one moment. Both may be empty. All keys are of `site`.
struct ScanArgs {
  SiteId site;
  std::vector<std::string> keys;
  std::string begin, end;
  std::uint32_t limit = kMaxScanBytes;
  std::uint64_t snapshot = 0;  // as they were then (SNAPSHOT); 0: as they are
};
struct ScanCell {
  std::string key, value;
  bool operator==(const ScanCell&) const = default;
};
// What a get of one key gave.
struct ScanValue {
  enum class State : std::uint32_t { kAbsent = 0, kPresent = 1, kUnreadable = 2 };
  State state = State::kAbsent;
  std::string value;  // kPresent: the value; kUnreadable: why
  bool operator==(const ScanValue&) const = default;
};
// Keys in [begin, end) that the store cannot read: its blocks fail their checksums.
struct ScanGap {
  std::string begin, end, reason;
};
struct ScanResult {
  // kJukebox: the site is another server's; kNoEnt: there is no such snapshot any more, or it does not have
  // the site; kInval: see above.
  nfs3::Status status = nfs3::Status::kOk;
  std::vector<ScanValue> values;  // of `keys`, in their order
  std::vector<ScanCell> cells;
  std::vector<ScanGap> gaps;
  std::string next;  // where the rest of the range begins; empty: it ended
};

// SNAPSHOT: keeps the cells as they are at one moment that is the same at all directory servers: between the
// first that takes and the last nothing is changed anywhere. So each takes a step when all have taken the one
// before. Who asks draws `number`.
enum class SnapshotStep : std::uint32_t {
  kHold = 0,     // requests of clients wait, and those under way have ended; for kMostHeld at most
  kFreeze = 1,   // nor does anything else change cells
  kTake = 2,     // keeps them
  kRelease = 3,  // all goes on
  kDrop = 4      // they are not kept any more. So it is when nobody has read them for kSnapshotKept
};
inline constexpr Duration kMostHeld = std::chrono::seconds(2);
inline constexpr Duration kSnapshotKept = std::chrono::seconds(60);
struct SnapshotArgs {
  SnapshotStep step = SnapshotStep::kHold;
  std::uint64_t number = 0;  // not 0
};
struct SnapshotResult {
  // kJukebox: not now: another one is being taken, requests under way do not end, or it took too long.
  nfs3::Status status = nfs3::Status::kOk;
  std::vector<std::uint32_t> sites;  // kTake: which the server has
};

void encode(rpc::XdrWriter& out, const SnapshotArgs& args);
bool decode(ByteView bytes, SnapshotArgs& out);
void encode(rpc::XdrWriter& out, const SnapshotResult& result);
bool decode(ByteView bytes, SnapshotResult& out);
void encode(rpc::XdrWriter& out, const ScanArgs& args);
bool decode(ByteView bytes, ScanArgs& out);
void encode(rpc::XdrWriter& out, const ScanResult& result);
bool decode(ByteView bytes, ScanResult& out);

}  // namespace slice::wire

#endif  // SLICE_WIRE_SCAN_H
