// SettingsBook: the ensemble's settings (common/settings.h) as the manager has them: durable in its store as
// `settings.copy`, published to every process, read again from its file on demand. A file that was edited
// counts when it is read again, and not before: not at a restart either. One loop.
#ifndef SLICE_CONTROL_MANAGER_SETTINGS_BOOK_H
#define SLICE_CONTROL_MANAGER_SETTINGS_BOOK_H

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/log.h"
#include "control/manager/state_store.h"
#include "service/context.h"
#include "wire/settings.h"

namespace slice::manager {

// Has `change` change what is of no file, quotas and trees; that is durable, and told to every living
// process, when this ends. The names of those that do not have it yet. An error of `change`, or of making it
// durable: nothing is changed.
using SettingsChange = std::function<Status(Settings& settings)>;
using ChangeSettings = std::function<Task<Result<std::vector<std::string>>>(SettingsChange change)>;

class SettingsBook {
 public:
  static constexpr Duration kTellTimeout = std::chrono::seconds(2);

  struct Hooks {
    const std::vector<wire::ServerEntry>& members;
    std::function<bool(std::uint32_t server)> alive;
  };
  // `store` outlives it.
  SettingsBook(service::ServiceContext& context, StateStore& store, Hooks hooks);

  // Goes by those that were kept; where there are none publishes those of the file, as generation 1. Errors:
  // they cannot be made durable, or the store does not tell.
  Task<Status> start();
  // Reads the file again. Where it is wrong, or changes what cannot change now, nothing is changed; else its
  // settings are durable, and every living process has been told when this ends.
  Task<wire::ReloadResult> reload();
  Task<Result<std::vector<std::string>>> change(SettingsChange change);
  // The same for others, whom this outlives.
  ChangeSettings changer() {
    return [this](SettingsChange what) { return change(std::move(what)); };
  }
  // What a process says of its settings: they may be newer than these, where the copy was lost or restored
  // from an old one. Such are taken over.
  void heard(const wire::HeartbeatArgs& args);
  SettingsGeneration generation() const { return context_.settings.get()->generation; }

 private:
  // What stands against the file's settings; empty: nothing does.
  std::string objection(const EnsembleConfig& read) const;
  static std::string objection_to_exports(const Settings& next);
  void put_in_force(Settings next);
  void warn_of_members(const EnsembleConfig& read, std::vector<std::string>& warnings) const;
  // With the lock held: durable, then in force here, then told.
  Task<Status> publish(Settings next);
  // The names of those that do not have them yet.
  Task<std::vector<std::string>> tell_all();
  static Task<void> settle_with(SettingsBook& self, std::uint32_t server, SettingsGeneration theirs);
  Task<Result<Settings>> ask(std::uint32_t server);

  service::ServiceContext& context_;
  StateStore& store_;
  const Hooks hooks_;
  AsyncMutex change_;
  bool reloaded_ = false;  // in this run: then these are what the operator wants, whoever has others
  bool settling_ = false;
  LogLimiter differ_log_{1};
  Counter &reloads_, &refused_, &generation_, &exports_of_no_tree_;
};

}  // namespace slice::manager

#endif  // SLICE_CONTROL_MANAGER_SETTINGS_BOOK_H
