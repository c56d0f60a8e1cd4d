#include "control/slicectl/health.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "control/slicectl/host_setup.h"
#include "control/slicectl/plans.h"
#include "rpc/call.h"

namespace slice::slicectl {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000, kSecond = 1'000'000'000;
// New tables and settings take a heartbeat to get everywhere.
constexpr std::uint64_t kLateMs = 2000;
// So long a manager that has started may not have heard everybody yet.
constexpr std::int64_t kManagerSettlesNs = 5 * kSecond;
// Heartbeats tell of the last second, and so of the time before a move ended.
constexpr std::int64_t kMoveSettlesNs = 3 * kSecond;
// From there on two hosts would see one file's times in another order than people do.
constexpr std::int64_t kClockToleranceNs = kSecond;

using Level = HealthLevel;

bool serves(const wire::HeartbeatArgs& told) {
  return told.state.starts_with("serving");
}
bool no_space(const wire::HeartbeatArgs& told) {
  return told.state.find("no space") != std::string::npos;
}

std::string at_its_host(const char* verb, const wire::ServerEntry& entry) {
  return fmt::format("at {}: systemctl {} {}", address_text(entry.endpoint.address), verb,
                     unit_of(static_cast<ServerRole>(entry.role), entry.name));
}

class Judge {
 public:
  Judge(const EnsembleConfig& config, const Heard& heard)
      : config_(config), heard_(heard), members_(members_of(heard)) {
    for (const HeardServer& each : heard.servers) own_[each.entry.name] = &each;
  }

  Health judge() {
    check_manager();
    check_places();
    for (const wire::Member& each : members_.members) {
      if (each.entry.role != wire::Role::kRemoved) check_member(each);
    }
    check_address();
    check_copies();
    check_moves();
    check_backing();
    check_standbys();
    check_tables();
    check_configuration();
    check_exports();
    check_versions();
    check_clocks();
    std::move(warnings_.begin(), warnings_.end(), std::back_inserter(errors_));
    return {std::move(errors_)};
  }

 private:
  void add(Level level, std::string name, std::string server, std::string what, std::string cure,
           std::optional<std::int64_t> since_ns = std::nullopt) {
    (level == Level::kError ? errors_ : warnings_)
        .push_back({level, std::move(name), std::move(server), std::move(what), since_ns, std::move(cure)});
  }
  std::int64_t ago(std::uint64_t milliseconds) const {
    return heard_.now.ns - static_cast<std::int64_t>(milliseconds) * kMillisecond;
  }
  const HeardServer* own_answer(const wire::Member& member) const {
    const auto found = own_.find(member.entry.name);
    return found == own_.end() ? nullptr : found->second;
  }
  // With tables; else only that it has some.
  std::string sites_text(const wire::ServerEntry& entry) const {
    const std::string_view role = wire::role_name(entry.role);
    if (!heard_.tables) return fmt::format("its {} sites", role);
    return fmt::format("{} of {} {} sites", wire::sites_of(*heard_.tables, entry.name).size(),
                       heard_.tables->sites[static_cast<std::size_t>(entry.role)].size(), role);
  }
  bool has_something(const wire::ServerEntry& entry) const {
    if (static_cast<std::size_t>(entry.role) >= wire::kSiteClasses) return true;
    return !heard_.tables || !wire::sites_of(*heard_.tables, entry.name).empty() ||
           !wire::layout_sites_of(*heard_.tables, entry.name).empty() || entry.started;
  }

  void check_manager() {
    if (!heard_.manager_silence) return;
    const ServerConfig& manager = *config_.first(ServerRole::kManager);
    if (rpc::keys_differ(*heard_.manager_silence)) {
      add(Level::kError, "KEY_DIFFERS", manager.name,
          "this host's key differs from the manager's: nothing of this host is a member",
          "copy the key file from the manager's host");
      return;
    }
    std::optional<std::int64_t> since;
    for (const HeardServer& each : heard_.servers) {
      if (!each.about || each.entry.role == wire::Role::kManager) continue;
      const std::int64_t heard = ago(each.about->manager_silent_ms);
      since = std::max(since.value_or(heard), heard);
    }
    const bool several = config_.managers.shared();
    add(Level::kError, "MANAGER_SILENT", several ? "" : manager.name,
        fmt::format("the manager does not answer ({}): what runs serves on; what starts waits for it, and no "
                    "site moves",
                    heard_.manager_silence->message),
        several ? std::string("docs/operations.md, \"Several managers\"")
                : at_its_host("start", {.role = wire::Role::kManager,
                                        .endpoint = {manager.address, manager.port},
                                        .name = manager.name}),
        since);
  }

  // Where managers share their state. Without most of it none leads, and MANAGER_SILENT says so.
  void check_places() {
    const wire::LeaderResult* said = leadership(heard_);
    if (said == nullptr) return;
    const std::vector<std::string> ill = ill_places(*said);
    if (ill.empty()) return;
    const std::size_t places = said->places.size();
    const std::size_t spare = (places - 1) / 2;
    add(Level::kWarning, "ETCD_DEGRADED", "",
        fmt::format("{} of {} members of etcd are not well ({}): {}", ill.size(), places,
                    fmt::join(ill, "; "),
                    ill.size() < spare    ? "it bears another loss"
                    : ill.size() == spare ? "with one more none of the managers leads"
                                          : "without a majority none of the managers leads"),
        "docs/operations.md, \"Several managers\"");
  }

  void check_member(const wire::Member& member) {
    const HeardServer* own = own_answer(member);
    const bool of_manager = member.entry.role == wire::Role::kManager;
    if (own != nullptr && own->silence && rpc::keys_differ(*own->silence)) {
      if (!of_manager)
        add(Level::kError, "KEY_DIFFERS", member.entry.name,
            "its host's key differs from this host's: one of them is no member",
            "copy the key file from the manager's host, and restart what runs there");
      return;
    }
    if (member.entry.lost.value != 0) {
      add(Level::kWarning, "SERVER_LOST", member.entry.name,
          "it was declared lost, and is still a member: what it had is made anew elsewhere",
          "slicectl server remove --lost " + member.entry.name);
      return;
    }
    const bool answers = own != nullptr && !own->silence;
    // What a server does before it serves may keep it from its heartbeats.
    const bool missed =
        heard_.members && !answers && serves(member.last) && member.age_ms > wire::kMissedHeartbeatMs;
    const bool silent = !member.alive || missed;
    if (silent && !(answers && manager_has_just_started())) {
      // MANAGER_SILENT says it already.
      if (!(of_manager && heard_.manager_silence)) add_silent(member, answers);
      return;
    }
    if (heard_.members && own != nullptr && own->silence && serves(member.last)) {
      add(Level::kWarning, "UNREACHABLE", member.entry.name,
          fmt::format("the manager heard it {:.1f} s ago, and it does not answer this host: {}",
                      static_cast<double>(member.age_ms) / 1000, own->silence->message),
          fmt::format("slicectl doctor, here and at {}: {} has to be open between hosts of the ensemble",
                      address_text(member.entry.endpoint.address), rpc::to_string(member.entry.endpoint)));
    }
    check_state(member, own);
    check_disk(member, own);
    check_xdp(member);
  }

  bool manager_has_just_started() const {
    const wire::LeaderResult* said = leadership(heard_);
    if (said != nullptr && said->leads &&
        static_cast<std::int64_t>(said->since_ms) * kMillisecond < kManagerSettlesNs)
      return true;
    return std::any_of(members_.members.begin(), members_.members.end(), [this](const wire::Member& each) {
      return each.entry.role == wire::Role::kManager &&
             heard_.now.ns - static_cast<std::int64_t>(each.last.started_ns) < kManagerSettlesNs;
    });
  }

  void add_silent(const wire::Member& member, bool answers) {
    const bool was_heard = member.last.started_ns != 0;
    std::optional<std::int64_t> since;
    if (was_heard && heard_.members) since = ago(member.age_ms);
    if (heard_.members && answers) {
      add(Level::kWarning, "UNHEARD", member.entry.name,
          "it answers this host, and the manager does not hear it: it gets no new tables and settings",
          "slicectl doctor at " + address_text(member.entry.endpoint.address), since);
      return;
    }
    add(has_something(member.entry) ? Level::kError : Level::kWarning, "SERVER_DOWN", member.entry.name,
        fmt::format("{} {}: {}", wire::role_name(member.entry.role),
                    was_heard || !heard_.members ? "is silent" : "was never heard", lost_with(member.entry)),
        at_its_host("start", member.entry), since);
  }

  // What of the volume is out of reach with it.
  std::string lost_with(const wire::ServerEntry& entry) const {
    if (!has_something(entry)) return "it has no sites, so nothing waits for it";
    switch (entry.role) {
      case wire::Role::kDirectory:
        return sites_text(entry) + ", whose names and attributes wait for it";
      case wire::Role::kSmallFile:
        return fmt::format("{}: the first {} KiB of their files wait for it", sites_text(entry),
                           config_.volume.threshold >> 10);
      case wire::Role::kStorage:
        return sites_text(entry) + storage_text();
      case wire::Role::kCoordinator:
        return sites_text(entry) + ": COMMIT, truncation and removal of their large files wait for it";
      case wire::Role::kProxy:
        return other_proxy_lives() ? "its clients have to go through another proxy"
                                   : "no client reaches the volume";
      default:
        return "nothing of the volume waits for it";
    }
  }
  std::string storage_text() const {
    std::vector<std::string> down;
    for (const wire::Member& each : members_.members) {
      if (each.entry.role == wire::Role::kStorage && !each.alive) down.push_back(each.entry.name);
    }
    std::string text = ": what files with one copy have there is out of reach, ";
    if (down.size() == 1) return text + "files with more are served from the others";
    return text + fmt::format("and of files with more what has all its copies on {}", fmt::join(down, ", "));
  }
  bool other_proxy_lives() const {
    return std::any_of(members_.members.begin(), members_.members.end(), [](const wire::Member& each) {
      return each.entry.role == wire::Role::kProxy && each.alive;
    });
  }

  void check_state(const wire::Member& member, const HeardServer* own) {
    const wire::HeartbeatArgs& told = own != nullptr && own->about ? own->about->told : member.last;
    if (serves(told) || (own != nullptr && !own->silence && !own->about)) return;
    std::optional<std::int64_t> since;
    if (own != nullptr && own->about) {
      since = ago(own->about->state_ms);
    } else if (told.started_ns != 0) {
      since = static_cast<std::int64_t>(told.started_ns);  // who does not serve yet has not since its start
    }
    const std::string state = told.state.empty() ? "in no state" : told.state;
    if (no_space(told)) {
      add(Level::kError, "NO_SPACE", member.entry.name,
          fmt::format("{} of {} bytes are free, its reserve: {}, and clients get NFS3ERR_NOSPC",
                      told.free_bytes, told.total_bytes, state),
          "docs/health.md, NO_SPACE", since);
    } else if (state.starts_with("failed")) {
      add(Level::kError, "SERVER_FAILED", member.entry.name,
          fmt::format("{}: it changes nothing any more", state), at_its_host("restart", member.entry), since);
    } else {
      add(Level::kError, "NOT_SERVING", member.entry.name, fmt::format("{}: {}", state, waits_with(member)),
          "docs/health.md, NOT_SERVING", since);
    }
  }
  std::string waits_with(const wire::Member& member) const {
    if (member.entry.role == wire::Role::kManager) return "nobody who starts gets tables";
    return lost_with(member.entry);
  }

  void check_disk(const wire::Member& member, const HeardServer* own) {
    const wire::HeartbeatArgs& told = member.last;
    if (told.total_bytes > 0 && !no_space(told) &&
        static_cast<double>(told.free_bytes) < kNearlyFull * static_cast<double>(told.total_bytes)) {
      add(Level::kWarning, "NEARLY_FULL", member.entry.name,
          fmt::format("{:.1f} % of its disk is free",
                      100.0 * static_cast<double>(told.free_bytes) / static_cast<double>(told.total_bytes)),
          "slicectl server add, and slicectl rebalance");
    }
    if (own == nullptr) return;
    const double damaged =
        own->figure("store_checksum_errors_total") + own->figure("smallfile_damaged_blocks_total");
    if (damaged > 0)
      add(Level::kError, "DAMAGED_BYTES", member.entry.name,
          fmt::format("{:.0f} reads of blocks with a wrong checksum since it started: readers get I/O errors",
                      damaged),
          "docs/health.md, DAMAGED_BYTES");
    const double differing = own->figure("backing_differing_pieces");
    if (differing > 0)
      add(Level::kError, "COPIES_DIFFER", member.entry.name,
          fmt::format(
              "the copies of what it keeps differ in {:.0f} pieces of 1 MiB, and which is right is not "
              "known",
              differing),
          "docs/health.md, COPIES_DIFFER");
    const double errors = own->figure("store_io_errors_total") + own->figure("store_sync_failures_total") +
                          own->figure("kv_sync_failures_total") +
                          own->figure("coordinator_log_failures_total");
    if (errors > 0)
      add(Level::kError, "DISK_ERRORS", member.entry.name,
          fmt::format("{:.0f} errors of its disk since it started", errors), "docs/health.md, DISK_ERRORS");
  }

  void check_xdp(const wire::Member& member) {
    using Xdp = ProxyConfig::Xdp;
    if (member.entry.role != wire::Role::kProxy || !serves(member.last)) return;
    const bool native = config_.proxy.xdp == Xdp::kNative;
    if (!native && config_.proxy.xdp != Xdp::kGeneric) return;
    const std::string_view wanted = native ? "native" : "generic";
    if (member.last.detail.starts_with(fmt::format("xdp: {}", wanted))) return;
    add(Level::kWarning, "XDP_OFF", member.entry.name,
        fmt::format("[proxy] xdp asks for \"{}\", and user space routes UDP: {}", wanted, member.last.detail),
        "slicectl doctor at " + address_text(member.entry.endpoint.address));
  }

  // Without a manager as well: each proxy says itself whether it has the address.
  void check_address() {
    double proxies = 0, holders = 0;
    std::string named;
    for (const HeardServer& each : heard_.servers) {
      if (!each.figures.contains("slice_proxy_holds_address")) continue;
      ++proxies;
      if (each.figure("proxy_holds_address") == 0) continue;
      ++holders;
      named += (named.empty() ? "" : " and ") + each.entry.name;
    }
    const std::string address = config_.proxy.addresses_text();
    if (proxies > 0 && holders == 0) {
      add(Level::kError, "ADDRESS_UNHELD", "",
          fmt::format("no proxy has the virtual address {}: all clients wait", address),
          "docs/health.md, ADDRESS_UNHELD");
    } else if (holders > 1) {
      add(Level::kError, "ADDRESS_TWICE", "",
          fmt::format("{} have the virtual address {}: clients may reach either", named, address),
          "none where it lasts for moments; else docs/health.md, ADDRESS_TWICE");
    }
  }

  void check_copies() {
    double missing = 0;
    for (const HeardServer& each : heard_.servers)
      missing += each.figure("coordinator_copies_missing_something");
    if (missing == 0) return;
    const bool storage_away =
        std::any_of(members_.members.begin(), members_.members.end(), [](const wire::Member& each) {
          return each.entry.role == wire::Role::kStorage && (!each.alive || !serves(each.last));
        });
    add(Level::kWarning, "REDUNDANCY", "",
        fmt::format("{:.0f} copies of mirrored files are not whole: their files have fewer copies than asked",
                    missing),
        storage_away ? "bring the storage server back; then copies are made whole by themselves"
                     : "none: they are being made whole (docs/mirrors.md)");
  }

  void check_moves() {
    if (!heard_.moves) return;
    bool going = false;
    for (const wire::MoveState& each : heard_.moves->moves) {
      if (!going_on(each)) continue;
      going = true;
      const std::string trouble = trouble_of(each);
      if (trouble.empty()) continue;
      add(Level::kWarning, "MOVES_STUCK", name_of_server(each.move.from),
          fmt::format("move {} of {} {} sites to {}: {}", each.move.id.value, each.move.sites.size(),
                      wire::role_name(each.move.site_class), name_of_server(each.move.to), trouble),
          fmt::format("slicectl moves; slicectl moves abort {}", each.move.id.value),
          static_cast<std::int64_t>(each.began_ns));
    }
    if (going && heard_.moves->settings.paused)
      add(Level::kWarning, "MOVES_PAUSED", "", "moves of sites have begun, and none goes on",
          "slicectl moves resume");
  }
  // A member that is down is not left in its set for long; whether there is another for it, storage servers
  // say.
  void check_backing() {
    if (!heard_.backing) return;
    for (const wire::BackingSet& each : heard_.backing->sets) {
      if (each.members.size() >= each.copies) continue;
      std::string on;
      for (std::uint32_t member : each.members) on += (on.empty() ? "" : ", ") + name_of_server(member);
      add(Level::kWarning, "BACKING_DEGRADED", name_of_server(each.server),
          fmt::format("what it keeps has {} of {} copies, on {}: it is lost with {}", each.members.size(),
                      each.copies, on, each.members.size() == 1 ? "that one" : "those"),
          "none while a copy is being made; else bring storage servers back, or add one (docs/backing.md)");
    }
  }
  // Who was told to stand by does so, as long as its server is served elsewhere.
  void check_standbys() {
    if (!heard_.standbys) return;
    const auto& standing_by = heard_.standbys->standbys;
    for (const wire::Member& each : members_.members) {
      const ServerConfig* configured = config_.find(each.entry.name);
      if (each.entry.role == wire::Role::kRemoved || !configured || configured->places.size() < 2) continue;
      const bool some =
          std::any_of(standing_by.begin(), standing_by.end(),
                      [&each](const wire::Standby& standby) { return standby.server == each.entry.server; });
      if (some) continue;
      add(Level::kWarning, "NO_STANDBY", each.entry.name,
          "no process stands by for it: while its host is away nobody serves it",
          "start its process on the other hosts that its `standbys` name; slicectl backing "
          "(docs/failover.md)");
    }
  }
  std::string trouble_of(const wire::MoveState& move) const {
    for (std::uint32_t index : {move.move.from, move.move.to}) {
      for (const wire::Member& each : members_.members) {
        if (each.entry.server == index && !each.alive) return each.entry.name + " is silent";
      }
    }
    return move.last.tries == 0 ? "" : move.last.trouble;
  }
  std::string name_of_server(std::uint32_t index) const {
    for (const wire::Member& each : members_.members) {
      if (each.entry.server == index) return each.entry.name;
    }
    return fmt::format("server {}", index);
  }

  void check_tables() {
    if (!heard_.tables) return;
    const std::uint64_t digest = wire::digest(*heard_.tables);
    for (const HeardServer& each : heard_.servers) {
      if (!each.about) continue;
      const wire::AboutResult& about = *each.about;
      check_late(each.entry.name, about);
      if (about.told.generation != heard_.tables->generation || about.told.tables_digest == 0) continue;
      if (about.told.tables_digest != digest)
        add(Level::kError, "TABLES_DIFFER", each.entry.name,
            fmt::format("it has other tables of generation {} than the manager",
                        heard_.tables->generation.value),
            "slicectl tables --check; docs/operations.md, \"Which server has which site\"");
      check_record(each.entry, about);
    }
  }
  void check_late(const std::string& name, const wire::AboutResult& about) {
    if (about.late_ms < kLateMs) return;
    if (about.told.generation < heard_.tables->generation)
      add(Level::kWarning, "LATE_TABLES", name,
          fmt::format("it goes by tables of generation {}, and {} is in force", about.told.generation.value,
                      heard_.tables->generation.value),
          "its log says why; slicectl tables --check", ago(about.late_ms));
    if (about.told.settings < heard_.members->settings)
      add(Level::kWarning, "LATE_SETTINGS", name,
          fmt::format("it goes by settings {}, and {} are in force", about.told.settings.value,
                      heard_.members->settings.value),
          "its log says why; slicectl reload", ago(about.late_ms));
  }
  // While sites move, records say so before tables do.
  void check_record(const wire::ServerEntry& entry, const wire::AboutResult& about) {
    if (static_cast<std::size_t>(entry.role) >= wire::kSiteClasses || !serves(about.told)) return;
    const bool settled =
        heard_.moves && std::all_of(heard_.moves->moves.begin(), heard_.moves->moves.end(),
                                    [this](const wire::MoveState& each) {
                                      return !going_on(each) && static_cast<std::int64_t>(each.ended_ns) <
                                                                    heard_.now.ns - kMoveSettlesNs;
                                    });
    if (!settled) return;
    if (about.told.record_digest == wire::digest(wire::sites_of(*heard_.tables, entry.name))) return;
    add(Level::kError, "RECORD_DIFFERS", entry.name,
        "its record of the sites that it has says otherwise than the manager's tables",
        "slicectl tables --check; docs/operations.md, \"Which server has which site\"");
  }

  void check_configuration() {
    const std::vector<wire::SharedKey> here = wire::shared_keys(config_);
    for (const HeardServer& each : heard_.servers) {
      if (!each.about) continue;
      const std::vector<std::string> differing = differing_keys(here, each.about->shared);
      if (differing.empty()) continue;
      add(Level::kWarning, "CONFIG_DIFFERS", each.entry.name,
          fmt::format("it runs with another ensemble.toml than {}: {}", config_.path,
                      fmt::join(differing, ", ")),
          "make the files the same, and restart it");
    }
  }

  void check_exports() {
    for (const HeardServer& each : heard_.servers) {
      const double paths = each.figure("manager_exports_of_no_tree");
      if (each.entry.role != wire::Role::kManager || paths == 0) continue;
      add(Level::kWarning, "EXPORT_OF_NO_TREE", "",
          fmt::format("{:.0f} of the paths in [[export]] are no trees': nobody is let in by these entries",
                      paths),
          "slicectl tree list names them; slicectl tree make");
    }
  }

  void check_versions() {
    std::map<std::string, std::vector<std::string>> by_version;
    for (const HeardServer& each : heard_.servers) {
      if (!each.silence) by_version[each.about ? each.about->version : "older"].push_back(each.entry.name);
    }
    if (by_version.size() < 2) return;
    std::vector<std::string> parts;
    for (const auto& [version, names] : by_version)
      parts.push_back(fmt::format("{}: {}", version, fmt::join(names, " ")));
    add(Level::kWarning, "VERSIONS_DIFFER", "",
        fmt::format("processes are of different versions: {}", fmt::join(parts, "; ")),
        "restart those of the older version, one after another");
  }

  // Against the manager's, or where that is silent the clock in the middle.
  void check_clocks() {
    std::vector<std::int64_t> all{0};
    std::optional<std::int64_t> reference;
    for (const HeardServer& each : heard_.servers) {
      if (!each.about) continue;
      all.push_back(each.ahead_ns);
      if (each.entry.role == wire::Role::kManager) reference = each.ahead_ns;
    }
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
    std::nth_element(all.begin(), middle, all.end());
    const std::int64_t right = reference.value_or(*middle);
    check_clock("", -right, 0);
    for (const HeardServer& each : heard_.servers) {
      if (each.about) check_clock(each.entry.name, each.ahead_ns - right, each.inexact.count());
    }
  }
  void check_clock(const std::string& server, std::int64_t ahead_ns, std::int64_t inexact_ns) {
    if (!clock_is_off(ahead_ns, inexact_ns)) return;
    add(Level::kWarning, "CLOCK", server,
        fmt::format("{} clock is {:.1f} s {} the {}: times of files come out of order",
                    server.empty() ? "this host's" : "its",
                    static_cast<double>(std::abs(ahead_ns)) / static_cast<double>(kSecond),
                    ahead_ns > 0 ? "ahead of" : "behind", heard_.members ? "manager's" : "others'"),
        "have its host take the time of day from the same source as the others (chrony, systemd-timesyncd)");
  }

  const EnsembleConfig& config_;
  const Heard& heard_;
  const wire::MembersResult members_;
  std::map<std::string, const HeardServer*> own_;
  std::vector<Finding> errors_, warnings_;
};

}  // namespace

std::vector<std::string> differing_keys(const std::vector<wire::SharedKey>& here,
                                        const std::vector<wire::SharedKey>& there) {
  std::vector<std::string> differing;
  for (const wire::SharedKey& own : here) {
    const auto found = std::find_if(there.begin(), there.end(),
                                    [&own](const wire::SharedKey& other) { return other.key == own.key; });
    if (found != there.end() && found->value != own.value)
      differing.push_back(fmt::format("{} ({}, here {})", own.key, found->value, own.value));
  }
  return differing;
}

bool clock_is_off(std::int64_t ahead_ns, std::int64_t inexact_ns) {
  return std::abs(ahead_ns) - inexact_ns > kClockToleranceNs;
}

std::string_view health_name(HealthLevel level) {
  switch (level) {
    case HealthLevel::kOk:
      return "HEALTH_OK";
    case HealthLevel::kWarning:
      return "HEALTH_WARN";
    case HealthLevel::kError:
      return "HEALTH_ERR";
  }
  return "?";
}

std::string_view level_name(HealthLevel level) {
  switch (level) {
    case HealthLevel::kOk:
      return "ok";
    case HealthLevel::kWarning:
      return "warning";
    case HealthLevel::kError:
      return "error";
  }
  return "?";
}

Health judge(const EnsembleConfig& config, const Heard& heard) {
  return Judge(config, heard).judge();
}

}  // namespace slice::slicectl
