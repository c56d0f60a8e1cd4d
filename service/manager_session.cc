#include "service/manager_session.h"

#include <unistd.h>

#include <utility>
#include <vector>

#include "common/log.h"
#include "rpc/call.h"
#include "service/log_backoff.h"
#include "service/managers.h"
#include "service/ownership.h"
#include "service/settings_keeper.h"
#include "storage/durable_file.h"

namespace slice::service {
namespace {

constexpr Duration kRetryDelay = std::chrono::milliseconds(200);
// Of a heartbeat where there are several managers: another one may lead by now.
constexpr Duration kShortTimeout = std::chrono::seconds(1);
constexpr const char* kCopy = "tables.copy";

}  // namespace

std::string why_the_manager_refuses(const Error& error) {
  if (rpc::keys_differ(error)) return "this host's key differs from the manager's";
  if (error.code == Errc::kIo)
    return "it has no tables yet, or cannot write; slicectl status shows its state";
  return error.message;
}

Task<std::optional<wire::Tables>> read_kept_tables(storage::Disk& disk) {
  auto copy = co_await storage::read_file(disk, kCopy);
  if (!copy && copy.error().code == Errc::kNotFound) co_return std::nullopt;
  wire::Tables tables;
  bool decodes = false;
  for (wire::TablesForm form : {wire::TablesForm::kNow, wire::TablesForm::kOfBirth, wire::TablesForm::kUnlost,
                                wire::TablesForm::kPlaces, wire::TablesForm::kUnmoved})
    decodes = decodes || (copy && wire::decode(copy->view(), form, tables));
  if (decodes && tables.generation.value > 0) co_return tables;
  log_warning("the kept copy of the tables is unusable: {}",
              copy ? "it does not decode" : copy.error().message);
  co_return std::nullopt;
}

Task<Status> keep_tables(storage::Disk& disk, wire::Tables tables) {
  rpc::XdrWriter out;
  encode(out, tables);
  co_return co_await storage::replace_file(disk, kCopy, out.take());
}

class ManagerSession::Impl : public std::enable_shared_from_this<Impl> {
 public:
  explicit Impl(const Seams& seams)
      : seams_(seams),
        ensemble_(seams.config),
        ownership_(seams.loop, seams.disk, seams.self),
        started_ns_(static_cast<std::uint64_t>(seams.loop.wall().ns)),
        heard_(seams.loop.now()),
        heartbeats_(
            seams.metrics.counter("manager_heartbeats_total", "heartbeats that the manager answered")),
        failures_(seams.metrics.counter("manager_heartbeat_failures_total",
                                        "heartbeats that the manager did not answer")),
        contradictions_(seams.metrics.counter(
            "tables_against_the_record_total",
            "tables that say otherwise than this server's record of its sites, and are not gone by")),
        generation_(seams.metrics.gauge(
            "tables_generation",
            "generation of the routing tables in use; all processes should show the same within a second")),
        settings_generation_(
            seams.metrics.gauge("settings_generation",
                                "generation of the settings in use; 0: those of the process's own file. All "
                                "processes should show the same within a second")),
        verifier_(seams.metrics.gauge("write_verifier",
                                      "the largest write verifier known, which data servers answer")) {
    ownership_.on_change([this] { put_in_use(); });
    if (seams.settings == nullptr) return;
    settings_.emplace(SettingsKeeper::Seams{.loop = seams.loop,
                                            .channel = seams.channel,
                                            .disk = seams.disk,
                                            .live = *seams.settings,
                                            .tables = seams.tables,
                                            .self = seams.self,
                                            .managers = ensemble_});
  }
  Ownership& ownership() { return ownership_; }

  Task<Status> load_kept() {
    if (settings_) co_await settings_->load_kept();
    if (has_sites()) {
      if (Status read = co_await ownership_.load(); !read) {
        co_return fail(std::move(read).error(), "the record of this server's sites");
      }
      SLICE_CO_RETURN_IF_ERROR(co_await ownership_.keep_number());
    }
    auto kept = co_await read_kept_tables(seams_.disk);
    if (kept && seams_.self.index < kept->servers.size() && kept->servers[seams_.self.index].lost.value != 0)
      co_return fail(Errc::kInvalid,
                     "this server was declared lost, and its data is not the volume's any more");
    if (kept && co_await adopt(*kept)) {
      holding_ = wire::Holding::kTables;
      had_copy_ = true;
      co_return Status{};
    }
    if (served_before()) holding_ = wire::Holding::kData;
    auto hints = seams_.hints ? seams_.hints() : std::nullopt;
    if (hints && co_await adopt(*hints)) {
      log_info("tables of a run before, generation {}", hints->generation.value);
      holding_ = wire::Holding::kHints;
    }
    co_return Status{};
  }

  static Task<void> load_all(std::shared_ptr<Impl> self) {
    if (self->seams_.self.role == ServerRole::kManager) co_return;
    co_await load_tables(self);
    if (self->settings_) co_await self->settings_->learn();
  }
  static Task<void> load_tables(std::shared_ptr<Impl> self) {
    while (true) {
      Status taken = co_await refresh(self);
      if (taken && self->has_sites()) taken = co_await self->claim();
      if (taken || self->ended_ || self->removed_) break;
      const std::string why = taken.error().message;
      if (self->has_tables() && (!self->has_sites() || self->ownership_.known())) {
        log_warning("no tables from the manager: {}; starting with the kept ones of generation {}", why,
                    self->seams_.tables.get()->generation().value);
        break;
      }
      if (self->seams_.self.role == ServerRole::kProxy) break;
      self->waits_for_ = why;
      if (self->waiting_log_.allow(self->seams_.loop.now(), why)) {
        log_warning("waiting for the manager at {} to have tables: {}{}", self->ensemble_.text(), why,
                    self->holding_ == wire::Holding::kData ? "; here is data, and its own were lost" : "");
      }
      co_await self->seams_.loop.sleep(kRetryDelay);
    }
    self->waits_for_.clear();
  }
  const std::string& waits_for() const { return waits_for_; }

  Task<Verifier> draw_verifier() {
    while (true) {
      auto drawn = co_await ensemble_.call<wire::DrawVerifierResult>(
          seams_.channel, wire::ManagerProcedure::kDrawVerifier, wire::DrawVerifierArgs{seams_.self.index},
          kStartTimeout);
      if (drawn) {
        waits_for_.clear();
        verifier_.set(drawn->verifier.value);
        co_return drawn->verifier;
      }
      waits_for_ = why_the_manager_refuses(drawn.error());
      if (waiting_log_.allow(seams_.loop.now(), waits_for_)) {
        log_warning("waiting for the manager at {} to draw a verifier: {}", ensemble_.text(), waits_for_);
      }
      co_await seams_.loop.sleep(kRetryDelay);
    }
  }

  wire::HeartbeatArgs told(const VerifierClock& verifier, const Fill& fill) {
    wire::HeartbeatArgs args;
    args.server = seams_.self.index;
    args.pid = seams_.pid != 0 ? seams_.pid : static_cast<std::uint64_t>(::getpid());
    args.started_ns = started_ns_;
    describe_tables(args);
    describe_settings(args);
    args.largest_seen = verifier.largest();
    fill(args);
    return args;
  }
  Duration manager_silent() const { return seams_.loop.now() - heard_; }
  Duration late() const { return late_since_ ? seams_.loop.now() - *late_since_ : Duration(0); }

  static Task<void> beat(std::shared_ptr<Impl> self, VerifierClock& verifier, Fill fill) {
    while (!self->ended_ && !self->removed_) {
      const wire::HeartbeatArgs args = self->told(verifier, fill);
      MonoTime next = self->seams_.loop.now() + kInterval;
      auto result = co_await self->ensemble_.call<wire::HeartbeatResult>(
          self->seams_.channel, wire::ManagerProcedure::kHeartbeat, args,
          self->ensemble_.several() ? kShortTimeout : kHeartbeatTimeout);
      if (self->ended_) co_return;
      co_await learn(self, result, verifier);
      if (self->ended_) co_return;
      if (result) self->note_late(*result);
      if (!self->answered_) next = self->seams_.loop.now() + kRetryDelay;
      if (self->seams_.loop.now() < next) co_await self->seams_.loop.sleep(next - self->seams_.loop.now());
    }
  }

  // Ends well where the manager's tables are in use now.
  static Task<Status> refresh(std::shared_ptr<Impl> self) {
    if (self->asking_) {
      OneShot<Status> answered;
      self->waiting_.push_back(answered);
      co_return co_await answered;
    }
    self->asking_ = true;
    Status taken = co_await self->take_tables();
    self->asking_ = false;
    for (const OneShot<Status>& each : std::exchange(self->waiting_, {})) each.set(taken);
    co_return taken;
  }

  // Twice, where the manager was being asked already, and answered with those of before.
  static Task<void> catch_up(std::shared_ptr<Impl> self, Generation generation) {
    for (int tries = 0; tries < 2 && !self->ended_; ++tries) {
      if (self->seams_.tables.get()->generation() >= generation) co_return;
      if (Status taken = co_await refresh(self); !taken) co_return;
    }
  }

  static Task<void> catch_up(std::shared_ptr<Impl> self, SettingsGeneration generation) {
    if (self->settings_ && !self->ended_) co_await self->settings_->catch_up(generation);
  }

  void end() { ended_ = true; }

 private:
  bool has_sites() const { return Ownership::applies_to(seams_.self.role); }
  bool has_tables() const { return holding_ == wire::Holding::kTables || holding_ == wire::Holding::kHints; }

  void describe_tables(wire::HeartbeatArgs& args) {
    generation_.set(seams_.tables.get()->generation().value);
    args.holding = holding_;
    args.record_digest = ownership_.digest();
    if (!has_tables()) return;
    // The manager's own are set by its role.
    const wire::Tables& tables = managers_ && has_sites() ? *managers_ : seams_.tables.get()->wire();
    args.generation = tables.generation;
    args.tables_digest = wire::digest(tables);
  }

  void describe_settings(wire::HeartbeatArgs& args) {
    if (!settings_) return;
    const std::shared_ptr<const Settings> settings = seams_.settings->get();
    args.settings = settings->generation;
    args.settings_digest = wire::digest(*settings);
    settings_generation_.set(settings->generation.value);
  }

  // What was not taken when the answer told of it.
  void note_late(const wire::HeartbeatResult& in_force) {
    const bool tables = has_tables() && seams_.tables.get()->generation() < in_force.generation;
    const bool settings =
        seams_.settings != nullptr && seams_.settings->get()->generation < in_force.settings;
    if (!tables && !settings) late_since_.reset();
    if ((tables || settings) && !late_since_) late_since_ = seams_.loop.now();
  }

  static Task<void> learn(std::shared_ptr<Impl> self, const Result<wire::HeartbeatResult>& result,
                          VerifierClock& verifier) {
    if (!result) {
      self->failures_.add();
      const std::string why = why_the_manager_refuses(result.error());
      if (self->silence_log_.allow(self->seams_.loop.now(), why))
        log_warning("no answer to the heartbeat: {}", why);
      co_return;
    }
    self->answered_ = true;
    self->heard_ = self->seams_.loop.now();
    if (const auto silent = self->silence_log_.over(self->heard_))
      log_info("the manager answers again, after {} s",
               std::chrono::duration_cast<std::chrono::seconds>(*silent).count());
    self->heartbeats_.add();
    verifier.see(result->largest_drawn);
    self->verifier_.set(verifier.largest().value);
    co_await catch_up(self, result->settings);
    if (self->ended_) co_return;
    if (result->claim && self->ownership_.known()) {
      Status told = co_await self->claim();
      if (self->ended_) co_return;
      if (!told && self->copy_log_.allow()) log_warning("{}", told.error().message);
    }
    if (result->offer) {
      co_await self->offer();
      co_return;
    }
    if (result->generation.value == 0) co_return;  // it has none
    bool other = result->generation != self->seams_.tables.get()->generation();
    if (other || self->holding_ != wire::Holding::kTables) {
      (void)co_await refresh(self);
    } else if (self->managers_) {
      // Those of a former manager may have had it here, and been lost with that one before anybody took them.
      self->tell_where_it_is(*self->managers_);
    }
  }

  bool served_before() const { return seams_.served_before && seams_.served_before(); }

  // Ends well where the manager knows of this server's record; makes it where it is the manager's will.
  Task<Status> claim() {
    const bool had = ownership_.known();
    wire::ClaimArgs args{.server = seams_.self.index,
                         .has_record = had,
                         .has_data = served_before() || had_copy_,
                         .version = ownership_.version(),
                         .sites = had ? ownership_.sites() : std::vector<wire::OwnedSite>(),
                         .layout_sites = had ? ownership_.layout_sites() : std::vector<std::uint32_t>()};
    auto result = co_await ensemble_.call<wire::ClaimResult>(seams_.channel, wire::ManagerProcedure::kClaim,
                                                             args, kStartTimeout);
    if (!result) co_return fail(result.error().code, "{}", why_the_manager_refuses(result.error()));
    if (result->verdict == wire::ClaimVerdict::kLost) {
      co_return fail(
          Errc::kInvalid,
          "this server had sites, and now there is neither a record of them nor data: bring its data "
          "directory back");
    }
    if (had) co_return Status{};
    if (result->verdict != wire::ClaimVerdict::kGrant || holding_ != wire::Holding::kTables ||
        managers_->generation != result->generation) {
      co_return fail(Errc::kStale, "the manager has other tables by now");
    }
    const wire::Tables tables = *managers_;
    SLICE_CO_RETURN_IF_ERROR(co_await ownership_.grant(tables));
    log_info("this server has {} sites, by the tables of generation {}", ownership_.sites().size(),
             tables.generation.value);
    co_await keep(tables);
    co_return co_await claim();
  }

  Task<void> offer() {
    if (!managers_) co_return;
    wire::OfferTablesArgs args{seams_.self.index, *managers_};
    auto result = co_await ensemble_.call<wire::OfferTablesResult>(
        seams_.channel, wire::ManagerProcedure::kOfferTables, args, kHeartbeatTimeout);
    if (ended_ || !copy_log_.allow()) co_return;
    if (result && result->taken) {
      log_info("tables of generation {} were offered to the manager", args.tables.generation.value);
    } else {
      log_warning("the manager does not take the tables of generation {}{}", args.tables.generation.value,
                  result ? "" : ": " + why_the_manager_refuses(result.error()));
    }
  }

  Task<Status> take_tables() {
    auto tables = co_await ensemble_.call<wire::Tables>(seams_.channel, wire::ManagerProcedure::kGetTables,
                                                        NoArguments{}, kStartTimeout);
    if (!tables) co_return fail(tables.error().code, "{}", why_the_manager_refuses(tables.error()));
    if (ended_) co_return fail(Errc::kUnavailable, "this server stops");
    const Generation own = seams_.tables.get()->generation();
    if (holding_ == wire::Holding::kTables && tables->generation < own) {
      if (copy_log_.allow()) {
        log_error("the manager has older tables, of generation {}: those of generation {} stay in use",
                  tables->generation.value, own.value);
      }
      co_return fail(Errc::kStale, "they are older than the kept ones");
    }
    if (co_await removed_by(*tables)) co_return fail(Errc::kInvalid, "this server is no member any more");
    const auto before = seams_.tables.get();
    if (!co_await adopt(*tables))
      co_return fail(Errc::kInvalid, "they do not fit this configuration or its record");
    tell_who_moved(before->wire(), *tables);
    holding_ = wire::Holding::kTables;
    log_info("tables of generation {} in use", tables->generation.value);
    tell_where_it_is(*tables);
    // Who has no record must not seem to have served by these, if it dies before it has one.
    if (!has_sites() || ownership_.known()) co_await keep(*tables);
    co_return Status{};
  }

  // Whether they have this server no more, or as lost: then it stops, and does not start again by what it has
  // kept.
  Task<bool> removed_by(wire::Tables tables) {
    if (seams_.self.index >= tables.servers.size()) co_return false;
    const wire::ServerEntry& self = tables.servers[seams_.self.index];
    if (self.role != wire::Role::kRemoved && self.lost.value == 0) co_return false;
    if (std::exchange(removed_, true)) co_return true;
    co_await keep(tables);
    if (!ended_ && seams_.removed) seams_.removed();
    co_return true;
  }

  void tell_who_moved(const wire::Tables& before, const wire::Tables& now) {
    if (!seams_.other_moved) return;
    for (std::size_t i = 0; i < std::min(before.servers.size(), now.servers.size()); ++i) {
      const rpc::Endpoint from = before.servers[i].endpoint, to = now.servers[i].endpoint;
      if (from != to && now.servers[i].role != wire::Role::kRemoved) seams_.other_moved(from, to);
    }
  }

  void tell_where_it_is(const wire::Tables& tables) {
    if (!seams_.moved || seams_.self.index >= tables.servers.size()) return;
    const rpc::Endpoint there = tables.servers[seams_.self.index].endpoint;
    if (there != rpc::Endpoint{seams_.self.address, seams_.self.port}) seams_.moved(there);
  }

  Task<void> keep(const wire::Tables& tables) {
    Status kept = co_await keep_tables(seams_.disk, tables);
    if (!kept && copy_log_.allow())
      log_warning("the copy of the tables cannot be kept: {}", kept.error().message);
  }

  // Goes by these tables, with the record's moves that they do not know of yet.
  Task<bool> adopt(wire::Tables tables) {
    if (auto made = routing::RoutingTables::make(seams_.config, tables); !made) {
      if (copy_log_.allow()) {
        log_error("tables of generation {} are unusable with this configuration: {}", tables.generation.value,
                  made.error().message);
      }
      co_return false;
    }
    // Where the manager has a site here that was offered, the old owner has given it away.
    for (wire::MoveId move : ownership_.taken_by(tables)) {
      if (Status taken = co_await ownership_.take(move); !taken) co_return false;
    }
    if (Status own = ownership_.check(tables); !own) {
      contradictions_.add();
      if (record_log_.allow()) {
        log_error("tables of generation {} are not gone by: {}", tables.generation.value,
                  own.error().message);
      }
      co_return false;
    }
    generation_.set(tables.generation.value);
    ownership_.saw(tables);
    ensemble_.learn(tables);
    managers_ = std::move(tables);
    put_in_use();
    co_return true;
  }

  void put_in_use() {
    if (!managers_) return;
    auto made = routing::RoutingTables::make(seams_.config, ownership_.applied_to(*managers_));
    if (!made) return;  // a record of sites that there are not; the manager takes no such claim
    seams_.tables.set(std::move(*made));
  }

  Seams seams_;
  Managers ensemble_;  // of which one is asked
  Ownership ownership_;
  std::optional<SettingsKeeper> settings_;
  std::optional<wire::Tables> managers_;  // those in use, as the manager has them
  std::uint64_t started_ns_;
  MonoTime heard_;                      // when the manager answered a heartbeat last
  std::optional<MonoTime> late_since_;  // newer tables or settings are known of
  bool ended_ = false;
  bool answered_ = false;  // a heartbeat, once at least
  bool removed_ = false;   // by the manager's tables
  wire::Holding holding_ = wire::Holding::kNothing;
  bool had_copy_ = false;  // of the tables, at the start
  std::string waits_for_;
  bool asking_ = false;                   // for tables
  std::vector<OneShot<Status>> waiting_;  // for the same answer
  LogBackoff waiting_log_, silence_log_;
  LogLimiter copy_log_{1}, record_log_{1};
  Counter& heartbeats_;
  Counter& failures_;
  Counter& contradictions_;
  Counter& generation_;
  Counter& settings_generation_;
  Counter& verifier_;
};

ManagerSession::ManagerSession(const Seams& seams) : impl_(std::make_shared<Impl>(seams)) {}
ManagerSession::~ManagerSession() {
  impl_->end();
}
Task<Status> ManagerSession::load_kept() {
  return impl_->load_kept();
}
std::string ManagerSession::waits_for() const {
  return impl_->waits_for();
}
Ownership& ManagerSession::ownership() {
  return impl_->ownership();
}
Task<void> ManagerSession::load_tables() {
  return Impl::load_all(impl_);
}
Task<Verifier> ManagerSession::draw_verifier() {
  return impl_->draw_verifier();
}
Task<void> ManagerSession::refresh() {
  (void)co_await Impl::refresh(impl_);  // the next heartbeat asks again
}
Task<void> ManagerSession::catch_up(Generation generation) {
  return Impl::catch_up(impl_, generation);
}
Task<void> ManagerSession::catch_up(SettingsGeneration generation) {
  return Impl::catch_up(impl_, generation);
}
wire::HeartbeatArgs ManagerSession::told(const VerifierClock& verifier, const Fill& fill) {
  return impl_->told(verifier, fill);
}
Duration ManagerSession::manager_silent() const {
  return impl_->manager_silent();
}
Duration ManagerSession::late() const {
  return impl_->late();
}
void ManagerSession::start_heartbeats(VerifierClock& verifier, Fill fill) {
  spawn(Impl::beat(impl_, verifier, std::move(fill)));
}

}  // namespace slice::service
