// Settings (common/settings.h) on their way: from slice-managerd to every process, from process to process
// where the manager is away, and into files. And RELOAD, by which an operator has the manager read its file
// again. The procedures are those of the admin program (wire/admin.h).
#ifndef SLICE_WIRE_SETTINGS_H
#define SLICE_WIRE_SETTINGS_H

#include <string>
#include <vector>

#include "common/settings.h"
#include "wire/admin.h"

namespace slice::wire {

// GET_SETTINGS: those that the process goes by; no arguments. What does not keep to the bounds of a
// configuration does not decode.
struct SettingsResult {
  Settings settings;
};
// Equal for equal settings of one generation, and else hardly ever.
std::uint64_t digest(const Settings& settings);

// NEW_SETTINGS: the manager has published settings of this generation, which the process takes from it before
// it answers; the answer is of which generation its own are then. Where it gets lost, the next heartbeat's
// answer tells.
struct SettingsNotice {
  SettingsGeneration generation;
};

// RELOAD, of the manager alone. No arguments.
struct ReloadResult {
  std::string refused;                // why nothing was changed; empty: what the file says is in force
  SettingsGeneration generation;      // of the settings in force
  std::vector<std::string> changed;   // keys that became others
  std::vector<std::string> warnings;  // of what the file has, one line each
  std::vector<std::string> late;      // living processes that do not have them yet
};
inline constexpr std::size_t kMaxReloadText = 4096;    // bytes of a text, which is cut there
inline constexpr std::uint32_t kMaxReloadTexts = 256;  // of each list

void encode(rpc::XdrWriter& out, const SettingsResult& result);
bool decode(ByteView bytes, SettingsResult& out);
void encode(rpc::XdrWriter& out, const SettingsNotice& notice);
bool decode(ByteView bytes, SettingsNotice& out);
void encode(rpc::XdrWriter& out, const ReloadResult& result);
bool decode(ByteView bytes, ReloadResult& out);

}  // namespace slice::wire

#endif  // SLICE_WIRE_SETTINGS_H
