// GET_CONFIGURATION of the manager program: what a host needs to know that is to become one of the ensemble's
// (docs/install.md). No arguments. The key is not in it: who asks has it, since the answer is a session's.
#ifndef SLICE_WIRE_CONFIGURATION_H
#define SLICE_WIRE_CONFIGURATION_H

#include <cstdint>
#include <string>

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

}  // namespace slice::wire

#endif  // SLICE_WIRE_CONFIGURATION_H
