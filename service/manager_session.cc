#include "service/manager_session.h"

#include <unistd.h>

#include <utility>
#include <vector>

#include "common/log.h"
#include "rpc/call.h"
#include "service/durable_file.h"
#include "service/internal_call.h"

namespace slice::service {
namespace {

constexpr Duration kRetryDelay = std::chrono::milliseconds(200);
constexpr const char* kCopy = "tables.copy";

}  // namespace

std::string why_the_manager_refuses(const Error& error) {
  if (rpc::keys_differ(error)) return "this host's key differs from the manager's";
  return error.message;
}

class ManagerSession::Impl : public std::enable_shared_from_this<Impl> {
 public:
  explicit Impl(const Seams& seams)
      : seams_(seams),
        started_ns_(static_cast<std::uint64_t>(seams.loop.wall().ns)),
        heartbeats_(seams.metrics.counter("manager_heartbeats_total")),
        failures_(seams.metrics.counter("manager_heartbeat_failures_total")),
        generation_(seams.metrics.counter("tables_generation")),
        verifier_(seams.metrics.counter("write_verifier")) {
    const ServerConfig* manager = seams.config.first(ServerRole::kManager);
    manager_ = {manager->address, manager->port};
  }

  Task<void> load_tables() {
    Status taken = fail(Errc::kUnavailable, "this is the manager");
    if (seams_.self.role != ServerRole::kManager) taken = co_await take_tables();
    if (taken) co_return;
    auto copy = co_await read_file(seams_.disk, kCopy);
    wire::Tables tables;
    if (copy && decode(copy->view(), tables) && adopt(tables)) {
      log_warning("no tables from the manager: {}; starting with the kept ones of generation {}",
                  taken.error().message, tables.generation.value);
      co_return;
    }
    if (!copy && copy.error().code != Errc::kNotFound) {
      log_warning("the kept copy of the tables is unusable: {}", copy.error().message);
    }
    adopt(routing::RoutingTables::initial(seams_.config));
  }

  Task<Verifier> draw_verifier() {
    while (true) {
      auto drawn = co_await internal_call<wire::DrawVerifierResult>(
          seams_.channel, manager_, wire::kManagerProgram, wire::ManagerProcedure::kDrawVerifier,
          wire::DrawVerifierArgs{seams_.self.index}, kStartTimeout);
      if (drawn) {
        verifier_.set(drawn->verifier.value);
        co_return drawn->verifier;
      }
      if (waiting_log_.allow()) {
        log_warning("waiting for the manager at {} to draw a verifier: {}", rpc::to_string(manager_),
                    why_the_manager_refuses(drawn.error()));
      }
      co_await seams_.loop.sleep(kRetryDelay);
    }
  }

  static Task<void> beat(std::shared_ptr<Impl> self, VerifierClock& verifier, Fill fill) {
    while (!self->ended_) {
      wire::HeartbeatArgs args;
      args.server = self->seams_.self.index;
      args.pid = static_cast<std::uint64_t>(::getpid());
      args.started_ns = self->started_ns_;
      args.generation = self->seams_.tables.get()->generation();
      self->generation_.set(args.generation.value);
      args.largest_seen = verifier.largest();
      fill(args);
      MonoTime next = self->seams_.loop.now() + kInterval;
      auto result = co_await internal_call<wire::HeartbeatResult>(
          self->seams_.channel, self->manager_, wire::kManagerProgram, wire::ManagerProcedure::kHeartbeat,
          args, kHeartbeatTimeout);
      if (self->ended_) co_return;
      co_await self->learn(result, verifier);
      if (self->ended_) co_return;
      if (self->seams_.loop.now() < next) co_await self->seams_.loop.sleep(next - self->seams_.loop.now());
    }
  }

  static Task<void> refresh(std::shared_ptr<Impl> self) {
    if (self->asking_) {
      OneShot<bool> answered;
      self->waiting_.push_back(answered);
      co_await answered;
      co_return;
    }
    self->asking_ = true;
    (void)co_await self->take_tables();  // the next heartbeat asks again
    self->asking_ = false;
    for (const OneShot<bool>& each : std::exchange(self->waiting_, {})) each.set(true);
  }

  void end() { ended_ = true; }

 private:
  Task<void> learn(const Result<wire::HeartbeatResult>& result, VerifierClock& verifier) {
    if (!result) {
      failures_.add();
      if (silence_log_.allow())
        log_warning("no answer to the heartbeat: {}", why_the_manager_refuses(result.error()));
      co_return;
    }
    heartbeats_.add();
    verifier.see(result->largest_drawn);
    verifier_.set(verifier.largest().value);
    if (result->generation != seams_.tables.get()->generation()) co_await refresh(shared_from_this());
  }

  Task<Status> take_tables() {
    auto tables = co_await internal_call<wire::Tables>(seams_.channel, manager_, wire::kManagerProgram,
                                                       wire::ManagerProcedure::kGetTables, NoArguments{},
                                                       kStartTimeout);
    if (!tables) co_return fail(tables.error().code, "{}", why_the_manager_refuses(tables.error()));
    if (ended_) co_return fail(Errc::kUnavailable, "this server stops");
    if (!adopt(*tables)) co_return fail(Errc::kInvalid, "they do not fit this configuration");
    log_info("tables of generation {} in use", tables->generation.value);
    rpc::XdrWriter out;
    encode(out, *tables);
    Status kept = co_await replace_file(seams_.disk, kCopy, out.take());
    if (!kept && copy_log_.allow())
      log_warning("the copy of the tables cannot be kept: {}", kept.error().message);
    co_return Status{};
  }

  bool adopt(const wire::Tables& tables) {
    auto made = routing::RoutingTables::make(seams_.config, tables);
    if (!made) {
      if (copy_log_.allow()) {
        log_error("tables of generation {} are unusable with this configuration: {}", tables.generation.value,
                  made.error().message);
      }
      return false;
    }
    generation_.set(tables.generation.value);
    seams_.tables.set(std::move(*made));
    return true;
  }

  Seams seams_;
  rpc::Endpoint manager_;
  std::uint64_t started_ns_;
  bool ended_ = false;
  bool asking_ = false;                 // for tables
  std::vector<OneShot<bool>> waiting_;  // for the same answer
  LogLimiter waiting_log_{1}, silence_log_{1}, copy_log_{1};
  Counter& heartbeats_;
  Counter& failures_;
  Counter& generation_;
  Counter& verifier_;
};

ManagerSession::ManagerSession(const Seams& seams) : impl_(std::make_shared<Impl>(seams)) {}
ManagerSession::~ManagerSession() {
  impl_->end();
}
Task<void> ManagerSession::load_tables() {
  return impl_->load_tables();
}
Task<Verifier> ManagerSession::draw_verifier() {
  return impl_->draw_verifier();
}
Task<void> ManagerSession::refresh() {
  return Impl::refresh(impl_);
}
void ManagerSession::start_heartbeats(VerifierClock& verifier, Fill fill) {
  spawn(Impl::beat(impl_, verifier, std::move(fill)));
}

}  // namespace slice::service
