#include "service/settings_keeper.h"

#include <cstring>
#include <utility>

#include "common/log.h"
#include "rpc/xdr.h"
#include "service/internal_call.h"
#include "service/managers.h"
#include "storage/durable_file.h"

namespace slice::service {
namespace {

constexpr std::uint32_t kSettingsMagic = 0x534c5345;  // "SLSE"
constexpr std::uint32_t kSettingsFormat = 3, kWithoutSlowOperations = 1;

}  // namespace

std::optional<Settings> decode_kept_settings(const Result<Buffer>& copy) {
  wire::SettingsResult kept;
  std::string why = copy ? "it does not decode" : copy.error().message;
  if (copy) {
    rpc::XdrReader in(copy->view());
    const std::uint32_t magic = in.u32(), format = in.u32();
    const bool is_ours =
        in.ok() && magic == kSettingsMagic && format >= kWithoutSlowOperations && format <= kSettingsFormat;
    Buffer settings(in.rest());
    if (format == kWithoutSlowOperations) std::memset(settings.extend(4), 0, 4);
    if (is_ours && decode(settings.view(), kept) && kept.settings.generation.value > 0) {
      return std::move(kept.settings);
    }
    if (!is_ours)
      why = fmt::format("magic {:#x}, format {}; format {} is expected", magic, format, kSettingsFormat);
  }
  log_warning("the kept settings, {}, are unusable: {}", kSettingsFile, why);
  return std::nullopt;
}

Task<std::optional<Settings>> read_kept_settings(storage::Disk& disk) {
  auto copy = co_await storage::read_file(disk, kSettingsFile);
  if (!copy && copy.error().code == Errc::kNotFound) co_return std::nullopt;
  co_return decode_kept_settings(copy);
}

Buffer encode_kept_settings(const Settings& settings) {
  rpc::XdrWriter out;
  out.u32(kSettingsMagic);
  out.u32(kSettingsFormat);
  encode(out, wire::SettingsResult{settings});
  return out.take();
}

Task<Status> keep_settings(storage::Disk& disk, const Settings& settings) {
  return storage::replace_file(disk, kSettingsFile, encode_kept_settings(settings));
}

Task<void> SettingsKeeper::load_kept() {
  if (auto kept = co_await read_kept_settings(seams_.disk)) seams_.live.set(std::move(*kept));
}

Task<void> SettingsKeeper::learn() {
  if (seams_.self.role == ServerRole::kManager) co_return;
  auto lock = co_await change_.lock();
  auto settings = co_await ask_manager();
  if (settings) {
    co_await adopt(std::move(*settings));
    co_return;
  }
  co_await ask_all();
  const SettingsGeneration generation = seams_.live.get()->generation;
  if (generation.value == 0) {
    log_warning("no settings from the manager: {}; those of this process's own file count",
                settings.error().message);
  } else {
    log_warning("no settings from the manager: {}; those of generation {} count", settings.error().message,
                generation.value);
  }
}

// Side by side: whoever is away as well costs one time-out in all.
Task<void> SettingsKeeper::ask_all() {
  const auto tables = seams_.tables.get();
  std::vector<OneShot<Result<Settings>>> answers;
  for (const wire::ServerEntry& entry : tables->wire().servers) {
    if (entry.server == seams_.self.index || entry.role == wire::Role::kManager) continue;
    spawn([](SettingsKeeper& self, rpc::Endpoint to, OneShot<Result<Settings>> answered) -> Task<void> {
      answered.set(co_await self.ask(to));
    }(*this, entry.endpoint, answers.emplace_back()));
  }
  for (OneShot<Result<Settings>>& answered : answers) {
    if (auto settings = co_await answered) co_await adopt(std::move(*settings));
  }
}

Task<void> SettingsKeeper::catch_up(SettingsGeneration generation) {
  auto lock = co_await change_.lock();
  if (seams_.live.get()->generation >= generation) co_return;
  if (auto settings = co_await ask_manager()) co_await adopt(std::move(*settings));
}

Task<Result<Settings>> SettingsKeeper::ask(rpc::Endpoint process) {
  auto result = co_await internal_call<wire::SettingsResult>(seams_.channel, process, wire::kAdminProgram,
                                                             wire::AdminProcedure::kGetSettings,
                                                             NoArguments{}, kTimeout);
  if (!result) co_return fail(std::move(result).error());
  co_return std::move(result->settings);
}

Task<Result<Settings>> SettingsKeeper::ask_manager() {
  auto result = co_await seams_.managers.call<wire::SettingsResult>(
      seams_.channel, wire::AdminProcedure::kGetSettings, NoArguments{}, kTimeout);
  if (!result) co_return fail(std::move(result).error());
  co_return std::move(result->settings);
}

// In use before they are kept: what was taken from a client must be so from its next call on, and a process
// that dies in between asks again.
Task<void> SettingsKeeper::adopt(Settings settings) {
  const auto before = seams_.live.get();
  if (settings.generation <= before->generation) co_return;
  const SettingsGeneration generation = settings.generation;
  log_info("settings of generation {} in use", generation.value);
  seams_.live.set(std::move(settings));
  if (Status kept = co_await keep_settings(seams_.disk, *seams_.live.get()); !kept) {
    log_warning("the settings of generation {} cannot be kept: {}", generation.value, kept.error().message);
  }
}

}  // namespace slice::service
