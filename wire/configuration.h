// GET_CONFIGURATION of the manager program: what a host needs to know that is to become one of the ensemble's
// (docs/install.md). The key is not in it: who asks has it, since the answer is a session's. GET_STATE: what
// the manager keeps, for backups. Both without arguments.
#ifndef SLICE_WIRE_CONFIGURATION_H
#define SLICE_WIRE_CONFIGURATION_H

#include <cstdint>
#include <string>
#include <vector>

#include "wire/manager.h"

namespace slice::wire {

struct ConfigurationResult {
  std::string refused;       // why there is no text; empty: there is one
  std::string version;       // of the manager's program
  std::uint64_t now_ns = 0;  // the wall clock of the manager's host
  std::string text;          // the manager's ensemble.toml
};
inline constexpr std::uint32_t kMaxConfigurationText = 2 << 20;  // bytes; a reply has 4 MiB

void encode(rpc::XdrWriter& out, const ConfigurationResult& result);
bool decode(ByteView bytes, ConfigurationResult& out);

// Files of the manager's data directory, without their checksums (storage/durable_file.h).
struct StateFile {
  std::string name, contents;
  bool operator==(const StateFile&) const = default;
};
struct StateResult {
  std::vector<StateFile> files;  // empty: it has no state, or cannot read it
};
inline constexpr std::uint32_t kMaxStateBytes = 3 << 20;  // of all files

void encode(rpc::XdrWriter& out, const StateResult& result);
bool decode(ByteView bytes, StateResult& out);

}  // namespace slice::wire

#endif  // SLICE_WIRE_CONFIGURATION_H
