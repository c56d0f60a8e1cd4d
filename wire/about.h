// ABOUT, of the admin program (wire/admin.h): what a process tells the manager, and what it knows besides,
// for whoever asks it itself: slicectl, which judges the health of the ensemble also where the manager is
// silent.
#ifndef SLICE_WIRE_ABOUT_H
#define SLICE_WIRE_ABOUT_H

#include <string>
#include <vector>

#include "common/config.h"
#include "wire/admin.h"

namespace slice::wire {

// What of ensemble.toml has to be the same on every host.
struct SharedKey {
  std::string key;    // as the file names it: "[volume] threshold"
  std::string value;  // as text; no secret
  bool operator==(const SharedKey&) const = default;
};
inline constexpr std::size_t kMaxSharedKeys = 64;

// Of this configuration, always the same keys in the same order. Not among them: keys in files, which calls
// themselves compare; the servers, which the manager's tables have; what the settings have, of which
// heartbeats tell the generation; and what each host has for itself.
std::vector<SharedKey> shared_keys(const EnsembleConfig& config);

// No arguments.
struct AboutResult {
  std::string name;            // of the server
  std::string version;         // of its program: "0.1.0"
  HeartbeatArgs told;          // as of now
  std::uint64_t wall_ns = 0;   // its clock
  std::uint64_t state_ms = 0;  // for how long its state has been that, as it notices once a second
  // Since the manager answered a heartbeat last; of one that never did, since the start.
  std::uint64_t manager_silent_ms = 0;
  // For how long it has known that there are newer tables or settings than it goes by; 0: it does not.
  std::uint64_t late_ms = 0;
  std::vector<SharedKey> shared;  // of the configuration that it started with
};

void encode(rpc::XdrWriter& out, const AboutResult& result);
bool decode(ByteView bytes, AboutResult& out);

}  // namespace slice::wire

#endif  // SLICE_WIRE_ABOUT_H
