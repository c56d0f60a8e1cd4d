// SettingsKeeper: keeps the settings that a server goes by (common/settings.h) those that the manager has
// published: takes newer ones, and has a copy in the data directory, `settings.copy`
// (docs/formats/settings.md), for a start while the manager is away. One loop.
#ifndef SLICE_SERVICE_SETTINGS_KEEPER_H
#define SLICE_SERVICE_SETTINGS_KEEPER_H

#include <optional>

#include "common/bytes.h"
#include "common/settings.h"
#include "common/task.h"
#include "routing/tables.h"
#include "rpc/channel.h"
#include "storage/disk.h"
#include "wire/settings.h"

namespace slice::service {

inline constexpr const char* kSettingsFile = "settings.copy";

// As `settings.copy` has them, but for the checksum.
Buffer encode_kept_settings(const Settings& settings);
// Nothing, with a log line, where they cannot be used.
std::optional<Settings> decode_kept_settings(const Result<Buffer>& copy);

// Of a run before; nothing where there are none that can be used, with a log line where there should be.
Task<std::optional<Settings>> read_kept_settings(storage::Disk& disk);
// Durable when it ends well. Calls must not overlap.
Task<Status> keep_settings(storage::Disk& disk, const Settings& settings);

class Managers;

class SettingsKeeper {
 public:
  static constexpr Duration kTimeout = std::chrono::seconds(1);  // of one question

  // All of it outlives the keeper and what was begun.
  struct Seams {
    Loop& loop;
    rpc::Channel& channel;
    storage::Disk& disk;
    LiveSettings& live;
    const routing::TableHolder& tables;  // where the other processes are
    const ServerConfig& self;
    Managers& managers;
  };
  explicit SettingsKeeper(const Seams& seams) : seams_(seams), change_(seams.loop) {}

  // Goes by those of a run before, where there are some.
  Task<void> load_kept();
  // Before the server serves: takes the manager's, and where that does not answer the newest that any other
  // process has. Ends within two time-outs; then what there is has to do.
  Task<void> learn();
  // Takes the manager's, where those in force are older than this generation, which no manager's are that
  // leads.
  Task<void> catch_up(SettingsGeneration generation);

 private:
  Task<Result<Settings>> ask(rpc::Endpoint process);
  Task<Result<Settings>> ask_manager();
  Task<void> ask_all();
  Task<void> adopt(Settings settings);

  const Seams seams_;
  AsyncMutex change_;  // one question at a time
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_SETTINGS_KEEPER_H
