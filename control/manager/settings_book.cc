#include "control/manager/settings_book.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "service/internal_call.h"
#include "service/settings_keeper.h"

namespace slice::manager {

SettingsBook::SettingsBook(service::ServiceContext& context, StateStore& store, Hooks hooks)
    : context_(context),
      store_(store),
      hooks_(std::move(hooks)),
      change_(context.loop),
      reloads_(context.metrics.counter("manager_reloads_total",
                                       "times that the manager was to read its file again")),
      refused_(context.metrics.counter(
          "manager_reloads_refused_total",
          "reloads that changed nothing, since the file was wrong or changes what no reload changes")),
      generation_(context.metrics.gauge("manager_settings_generation",
                                        "generation of the settings that the manager has published")),
      exports_of_no_tree_(
          context.metrics.gauge("manager_exports_of_no_tree",
                                "paths that exports name and that are no trees': nobody is let in there")) {}

Task<Status> SettingsBook::start() {
  auto lock = co_await change_.lock();
  Settings of_file = settings_of(context_.config);
  const auto copy = co_await store_.read(service::kSettingsFile);
  // Not to be taken for settings that are not there: those of the file would be published in their place.
  if (!copy && (copy.error().code == Errc::kUnavailable || copy.error().code == Errc::kStale))
    co_return fail(copy.error());
  const bool never = !copy && copy.error().code == Errc::kNotFound;
  auto kept = never ? std::nullopt : service::decode_kept_settings(copy);
  if (!kept) {
    of_file.generation = SettingsGeneration{1};
    co_return co_await publish(std::move(of_file));
  }
  const std::vector<std::string> others = differences(*kept, of_file);
  if (!others.empty()) {
    log_warning(
        "{} was edited and not read again: the settings of generation {} are in force (slicectl "
        "reload takes the file's): {}",
        context_.config.path, kept->generation.value, fmt::join(others, ", "));
  }
  put_in_force(std::move(*kept));
  co_return Status{};
}

void SettingsBook::put_in_force(Settings next) {
  if (const std::string why = objection_to_exports(next); !why.empty())
    log_warning("{}: nobody is let in by it", why);
  exports_of_no_tree_.set(next.exports_of_no_tree().size());
  generation_.set(next.generation.value);
  context_.settings.set(std::move(next));
}

Task<wire::ReloadResult> SettingsBook::reload() {
  auto lock = co_await change_.lock();
  reloads_.add();
  wire::ReloadResult result;
  const std::shared_ptr<const Settings> before = context_.settings.get();
  result.generation = before->generation;
  auto read = load_ensemble(context_.config.path);
  result.refused = read ? objection(*read) : read.error().message;
  Settings next;
  if (result.refused.empty()) {
    next = settings_of(*read);
    next.quotas = before->quotas;
    next.trees = before->trees;
    result.refused = objection_to_exports(next);
  }
  if (result.refused.empty()) {
    result.warnings = read->warnings;
    warn_of_members(*read, result.warnings);
    next.generation = SettingsGeneration{before->generation.value + 1};
    result.changed = differences(*before, next);
    if (!result.changed.empty()) {
      if (Status published = co_await publish(std::move(next)); !published) {
        result.refused = "the settings cannot be made durable: " + published.error().message;
      }
    }
  }
  if (!result.refused.empty()) {
    refused_.add();
    result.changed.clear();
    log_error("reload: nothing is changed: {}", result.refused);
    co_return result;
  }
  reloaded_ = true;
  context_.metrics
      .gauge("configuration_warnings",
             "warnings of the configuration that the process started with; slicectl check shows them")
      .set(read->warnings.size());
  result.generation = generation();
  result.late = co_await tell_all();
  for (const std::string& warning : result.warnings) log_warning("{}", warning);
  log_info("reload: settings of generation {} are in force; changed: {}; late: {}", result.generation.value,
           result.changed.empty() ? "nothing" : fmt::format("{}", fmt::join(result.changed, ", ")),
           result.late.empty() ? "nobody" : fmt::format("{}", fmt::join(result.late, " ")));
  co_return result;
}

Task<Result<std::vector<std::string>>> SettingsBook::change(SettingsChange change) {
  auto lock = co_await change_.lock();
  const std::shared_ptr<const Settings> before = context_.settings.get();
  Settings next = *before;
  SLICE_CO_RETURN_IF_ERROR(change(next));
  if (next == *before) co_return std::vector<std::string>{};
  ++next.generation.value;
  if (Status published = co_await publish(std::move(next)); !published) {
    co_return fail(published.error().code, "the settings cannot be made durable: {}",
                   published.error().message);
  }
  co_return co_await tell_all();
}

std::string SettingsBook::objection(const EnsembleConfig& read) const {
  std::vector<std::string> fixed = fixed_differences(context_.config, read, {context_.self.name});
  for (const wire::ServerEntry& member : hooks_.members) {
    const ServerConfig* listed = read.find(member.name);
    const std::string key = fmt::format("role of server '{}'", member.name);
    const bool differs = listed != nullptr && static_cast<wire::Role>(listed->role) != member.role;
    if (differs && std::find(fixed.begin(), fixed.end(), key) == fixed.end()) fixed.push_back(key);
  }
  if (fixed.empty()) return "";
  return fmt::format("{}: not to be changed by a reload (docs/configuration.md): {}", read.path,
                     fmt::join(fixed, ", "));
}

// Who takes a path for exported is mistaken as long as there is no tree: those of the tree above count there.
std::string SettingsBook::objection_to_exports(const Settings& next) {
  const std::vector<std::string> paths = next.exports_of_no_tree();
  if (paths.empty()) return "";
  return fmt::format("[[export]] path: {}: no tree (slicectl tree make)", fmt::join(paths, ", "));
}

void SettingsBook::warn_of_members(const EnsembleConfig& read, std::vector<std::string>& warnings) const {
  for (const ServerConfig& server : read.servers) {
    auto member = std::find_if(hooks_.members.begin(), hooks_.members.end(),
                               [&server](const wire::ServerEntry& each) { return each.name == server.name; });
    if (member == hooks_.members.end()) {
      warnings.push_back(
          fmt::format("server '{}' is no member of the ensemble (slicectl server add)", server.name));
    } else if (member->endpoint != rpc::Endpoint{server.address, server.port}) {
      warnings.push_back(fmt::format("server '{}' is at {} (slicectl server set)", server.name,
                                     rpc::to_string(member->endpoint)));
    }
  }
}

Task<Status> SettingsBook::publish(Settings next) {
  co_await context_.crash.reach("settings.keeping");
  SLICE_CO_RETURN_IF_ERROR(
      co_await store_.replace(service::kSettingsFile, service::encode_kept_settings(next)));
  co_await context_.crash.reach("settings.kept");
  put_in_force(std::move(next));
  co_return Status{};
}

Task<std::vector<std::string>> SettingsBook::tell_all() {
  struct Told {
    std::string name;
    OneShot<bool> has_them;
  };
  const wire::SettingsNotice notice{generation()};
  std::vector<Told> told;
  for (const wire::ServerEntry& entry : hooks_.members) {
    if (!hooks_.alive(entry.server) || entry.server == context_.self.index) continue;
    told.push_back({entry.name, {}});
    spawn([](rpc::Channel& channel, rpc::Endpoint to, wire::SettingsNotice what,
             OneShot<bool> answered) -> Task<void> {
      // Whom it does not reach, the answer to the next heartbeat does.
      auto answer = co_await service::internal_call<wire::SettingsNotice>(
          channel, to, wire::kAdminProgram, wire::AdminProcedure::kNewSettings, what, kTellTimeout);
      answered.set(answer && answer->generation >= what.generation);
    }(context_.channel, entry.endpoint, notice, told.back().has_them));
  }
  std::vector<std::string> late;
  for (Told& each : told) {
    if (!co_await each.has_them) late.push_back(std::move(each.name));
  }
  co_return late;
}

void SettingsBook::heard(const wire::HeartbeatArgs& args) {
  const std::shared_ptr<const Settings> own = context_.settings.get();
  const bool newer = args.settings > own->generation;
  const bool differs = args.settings == own->generation && args.settings_digest != wire::digest(*own);
  if ((!newer && !differs) || args.server >= hooks_.members.size() || std::exchange(settling_, true)) return;
  if (differ_log_.allow()) {
    log_warning("{} has other settings than this manager: of generation {}, here {}",
                hooks_.members[args.server].name, args.settings.value, own->generation.value);
  }
  spawn(settle_with(*this, args.server, args.settings));
}

// Newer ones are taken over, so that a manager that lost its copy, or got back an old one, takes nothing back
// that was published. Two of one generation, or a reload since: these count, under a generation beyond both.
Task<void> SettingsBook::settle_with(SettingsBook& self, std::uint32_t server, SettingsGeneration theirs) {
  auto lock = co_await self.change_.lock();
  self.settling_ = false;
  const std::shared_ptr<const Settings> own = self.context_.settings.get();
  if (theirs < own->generation) co_return;
  Settings next = *own;
  if (theirs > own->generation && !self.reloaded_) {
    auto taken = co_await self.ask(server);
    if (!taken || taken->generation <= own->generation) co_return;
    next = std::move(*taken);
  } else {
    next.generation = SettingsGeneration{theirs.value + 1};
  }
  if (Status published = co_await self.publish(std::move(next)); !published) {
    log_error("the settings cannot be kept: {}", published.error().message);
    co_return;
  }
  log_warning("settings of generation {} are in force", self.generation().value);
  (void)co_await self.tell_all();
}

Task<Result<Settings>> SettingsBook::ask(std::uint32_t server) {
  auto result = co_await service::internal_call<wire::SettingsResult>(
      context_.channel, hooks_.members[server].endpoint, wire::kAdminProgram,
      wire::AdminProcedure::kGetSettings, service::NoArguments{}, kTellTimeout);
  if (!result) co_return fail(std::move(result).error());
  co_return std::move(result->settings);
}

}  // namespace slice::manager
