#include "control/manager/role.h"

#include <utility>

#include "common/log.h"
#include "control/manager/etcd_registry.h"
#include "control/manager/file_store.h"
#include "control/manager/shared_store.h"
#include "service/settings_keeper.h"
#include "storage/durable_file.h"

namespace slice::manager {
namespace {

// The state of a manager that was the only one, once it is shared.
constexpr const char* kTakenOver = "manager.state.shared";

// The store as one term has it.
class TermStore : public StateStore {
 public:
  explicit TermStore(StateStore& store) : store_(store) {}
  void close() { closed_ = true; }
  Task<Result<Buffer>> read(std::string name) override {
    if (closed_) co_return fail(over());
    co_return co_await store_.read(std::move(name));
  }
  Task<Status> replace(std::string name, Buffer contents) override {
    if (closed_) co_return fail(over());
    co_return co_await store_.replace(std::move(name), std::move(contents));
  }
  void stand(Hooks /*hooks*/) override {}
  bool leads() const override { return !closed_ && store_.leads(); }
  Task<void> resign(Duration pause) override { return store_.resign(pause); }
  std::string leader() const override { return store_.leader(); }

 private:
  static Error over() { return {Errc::kStale, "this manager does not lead any more"}; }
  StateStore& store_;
  bool closed_ = false;
};

// The engine that the configuration names. kInvalid: it cannot be used as it is configured.
Result<std::unique_ptr<StateStore>> store_of(service::ServiceContext& context) {
  const ManagersConfig& config = context.config.managers;
  if (!config.shared()) return std::make_unique<FileStore>(context.disk, context.self.name);
  EtcdRegistry::Credentials credentials;
  if (!config.etcd_user.empty()) {
    auto read = read_credentials(config.etcd_user);
    if (!read) return fail(std::move(read).error());
    credentials = std::move(*read);
  }
  return std::make_unique<SharedStore>(
      SharedStore::Seams{.loop = context.loop,
                         .metrics = context.metrics,
                         .self = context.self.name,
                         .lease = std::chrono::seconds(config.lease_s),
                         .random = context.random},
      std::make_unique<EtcdRegistry>(context.loop, context.metrics, config, std::move(credentials)));
}

}  // namespace

struct ManagerRole::Term {
  Term(service::ServiceContext& context, StateStore& all) : store(all), manager(context, store) {}
  TermStore store;
  Manager manager;
  bool serves = false;  // it has its state
  MonoTime since{};     // if so
};

ManagerRole::ManagerRole(service::ServiceContext& context) : ManagerRole(context, store_of(context)) {}

ManagerRole::ManagerRole(service::ServiceContext& context, Result<std::unique_ptr<StateStore>> store)
    : InternalProgram(wire::kManagerProgram),
      context_(context),
      unfit_(store ? Status{} : fail(store.error())),
      store_(store ? std::move(*store) : std::make_unique<FileStore>(context.disk)),
      alone_(store_->leads()),
      leads_(context.metrics.gauge("manager_leads", "1: this manager leads; 0: another one, or none, does")),
      terms_(context.metrics.counter("manager_terms_total", "times that this manager became the leader")),
      refused_(context.metrics.counter(
          "manager_not_leading_total",
          "calls that this manager did not answer, or whose answer it kept back, since it did not lead")) {
  on<service::NoArguments>(wire::ManagerProcedure::kLeader, [this](const auto&) { return leader(); });
}

ManagerRole::~ManagerRole() = default;

Task<Status> ManagerRole::start() {
  if (!unfit_) co_return fail(unfit_.error());
  if (alone_) {
    term_ = std::make_shared<Term>(context_, *store_);
    SLICE_CO_RETURN_IF_ERROR(co_await term_->manager.start());
    term_->serves = true;
    term_->since = context_.loop.now();
    leads_.set(1);
    terms_.add();
    co_return Status{};
  }
  store_->stand({.begun = [this] { begin(); }, .ended = [this] { end(); }});
  co_return Status{};
}

void ManagerRole::begin() {
  if (stopped_) return;
  forget_retired();
  term_ = std::make_shared<Term>(context_, *store_);
  spawn(lead(*this, term_));
}

// As a start: what the manager before did is in the state, and what it knew beyond that is asked for anew.
Task<void> ManagerRole::lead(ManagerRole& self, std::shared_ptr<Term> term) {
  Status started = co_await self.take_over_files(term->store);
  if (started) started = co_await term->manager.start();
  if (self.term_ != term) co_return;  // it is over already
  if (!started) {
    // A term that is over already says nothing of the next.
    const bool over = started.error().code == Errc::kStale;
    if (!over) {
      self.trouble_ = started.error().message;
      log_error("this manager cannot lead: {}", self.trouble_);
    }
    self.end();
    co_await self.store_->resign(over ? Duration(0) : kFailedPause);
    co_return;
  }
  self.trouble_.clear();
  term->serves = true;
  term->since = self.context_.loop.now();
  self.leads_.set(1);
  self.terms_.add();
  log_info("this manager leads");
}

void ManagerRole::end() {
  if (!term_) return;
  if (term_->serves) log_warning("this manager does not lead any more");
  term_->store.close();
  term_->manager.stop();
  retired_.emplace_back(context_.loop.now(), std::exchange(term_, nullptr));
  leads_.set(0);
}

void ManagerRole::forget_retired() {
  while (!retired_.empty() && context_.loop.now() - retired_.front().first > kRetired) retired_.pop_front();
}

// A manager that was the only one, and is to share its state from now on, brings it along; once.
Task<Status> ManagerRole::take_over_files(StateStore& store) {
  const auto shared = co_await store.read(kStateFile);
  if (shared || shared.error().code != Errc::kNotFound) co_return Status{};
  for (const char* name : {service::kSettingsFile, kStateFile}) {  // the state last: it ends this
    auto own = co_await storage::read_file(context_.disk, kStateFile);
    if (!own && own.error().code == Errc::kNotFound) co_return Status{};
    if (own && name != kStateFile) {
      if (auto there = co_await store.read(name); there) continue;
      own = co_await storage::read_file(context_.disk, name);
      if (!own) continue;
    }
    if (!own) co_return fail(std::move(own).error());
    SLICE_CO_RETURN_IF_ERROR(co_await store.replace(name, std::move(*own)));
  }
  log_warning("the managers share the state that this one had in {} from now on", kStateFile);
  // Kept under another name: were what they share ever lost, an old state would not be taken for theirs.
  SLICE_CO_RETURN_IF_ERROR(co_await context_.disk.rename(kStateFile, kTakenOver));
  co_return co_await context_.disk.sync_folder("");
}

Task<void> ManagerRole::stop() {
  stopped_ = true;
  if (alone_) {  // who asks something until the process ends is answered
    if (term_) term_->manager.stop();
    co_return;
  }
  end();
  co_await store_->resign(std::chrono::hours(1));
}

bool ManagerRole::leads() const {
  return term_ && term_->serves && store_->leads();
}

const Manager* ManagerRole::manager() const {
  return term_ ? &term_->manager : nullptr;
}

std::string ManagerRole::state() const {
  if (leads()) return term_->manager.state();
  if (!trouble_.empty()) return "waiting: " + trouble_;
  return leader().leader.empty() ? "waiting: no manager leads" : "serving";
}

std::string ManagerRole::detail() const {
  if (leads()) return alone_ ? term_->manager.detail() : "leads; " + term_->manager.detail();
  const std::string other = leader().leader;
  return other.empty() ? "stands by" : fmt::format("stands by; {} leads", other);
}

Task<wire::ReloadResult> ManagerRole::reload() {
  const std::shared_ptr<Term> term = term_;
  if (leads()) co_return co_await term->manager.reload();
  wire::ReloadResult refused{.refused = "this manager does not lead"};
  if (const std::string other = leader().leader; !other.empty()) refused.refused += ": " + other + " does";
  log_warning("reload: nothing is changed: {}", refused.refused);
  co_return refused;
}

wire::LeaderResult ManagerRole::leader() const {
  wire::LeaderResult result{
      .leads = leads(), .leader = store_->leader(), .trouble = trouble_, .places = store_->places()};
  if (result.leads) {
    result.leader = context_.self.name;
    result.since_ms = in_milliseconds(context_.loop.now() - term_->since);
  }
  // Its own lease, with which it does not lead yet, or no more.
  if (!result.leads && result.leader == context_.self.name) result.leader.clear();
  return result;
}

Task<rpc::Outcome> ManagerRole::handle(const rpc::Call& call, rpc::XdrWriter& results) {
  if (!call.internal || call.procedure == static_cast<std::uint32_t>(wire::ManagerProcedure::kLeader))
    co_return co_await InternalProgram::handle(call, results);
  const std::shared_ptr<Term> term = term_;  // as long as the call is under way
  if (leads()) {
    const rpc::Outcome outcome = co_await term->manager.handle(call, results);
    // What it says may not be so any more: the caller asks who leads.
    if (term == term_ && leads()) co_return outcome;
  }
  refused_.add();
  co_return rpc::Outcome::kError;
}

service::ServerKind server_kind() {
  return {.role = ServerRole::kManager,
          .make = [](service::ServiceContext& context) { return std::make_unique<ManagerRole>(context); }};
}

}  // namespace slice::manager
