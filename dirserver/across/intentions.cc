#include "dirserver/across/intentions.h"

#include <algorithm>

#include "dirserver/across/back_off.h"

namespace slice::dirserver {

Intentions::Intentions(service::ServiceContext& context, CellStore& cells, Peers& peers)
    : context_(context),
      cells_(cells),
      peers_(peers),
      incarnation_(context.random()),
      begun_(context.metrics.counter(
          "cross_site_changes_begun_total",
          "tries of changes that needed something of another server, or of a lock of this one")),
      decided_(context.metrics.counter("cross_site_changes_decided_total",
                                       "cross-site changes committed with other servers taking part")),
      given_up_(context.metrics.counter("cross_site_changes_given_up_total",
                                        "cross-site changes given up: nothing of another server was changed, "
                                        "or the try lost a lock to an older change and was made again")),
      retries_(
          context.metrics.counter("cross_site_finish_retries_total",
                                  "times that participants of a cross-site change had to be told again")),
      open_(context.metrics.gauge(
          "cross_site_changes_open",
          "cross-site changes that run, or are decided and not yet carried out by everybody")) {}

TransactionId Intentions::begin(SiteId site) {
  begun_.add();
  TransactionId id{site, incarnation_, next_++};
  states_.emplace(id, State::kRunning);
  open_.set(states_.size());
  return id;
}

void Intentions::given_up(const TransactionId& id, const std::vector<SiteId>& contacted) {
  given_up_.add();
  states_.erase(id);
  open_.set(states_.size());
  if (contacted.empty()) return;
  spawn([](Intentions& self, TransactionId ended, std::vector<SiteId> sites) -> Task<void> {
    co_await self.tell_all(ended, std::move(sites), false);
  }(*this, id, contacted));
}

Task<bool> Intentions::decided(IntentionRecord record, std::vector<SiteId> released) {
  if (record.participants.empty()) co_return true;
  decided_.add();
  states_[record.id] = State::kDecided;
  spawn([](Intentions& self, TransactionId id, std::vector<SiteId> sites) -> Task<void> {
    co_await self.tell_all(id, std::move(sites), true);
  }(*this, record.id, std::move(released)));
  co_await context_.crash.reach("initiator.decided");
  const Stay stay = cells_.stays().of(record.id.site);
  bool all_done = co_await tell_all(record.id, record.participants, true);
  if (all_done) {
    co_await erase(std::move(record), stay);
  } else {
    spawn(tell_until_done(std::move(record)));
  }
  co_return all_done;
}

Task<bool> Intentions::tell_all(TransactionId id, std::vector<SiteId> sites, bool commit) {
  std::vector<Task<bool>> calls;
  calls.reserve(sites.size());
  for (SiteId site : sites) calls.push_back(tell(id, site, commit));
  auto done = co_await all(std::move(calls));
  co_return std::all_of(done.begin(), done.end(), [](bool each) { return each; });
}

Task<bool> Intentions::tell(TransactionId id, SiteId site, bool commit) {
  auto result = co_await peers_.call_owner<wire::PeerResult>(site, wire::DirectoryProcedure::kFinish,
                                                             wire::FinishArgs{name_of(id), commit, site});
  if (!result && commit && log_.allow()) {
    log_warning("site {} is to finish a change and does not answer: {}", site.value, result.error().message);
  }
  co_return result && result->status == wire::PeerStatus::kOk;
}

Task<void> Intentions::tell_until_done(IntentionRecord record) {
  const Stay stay = cells_.stays().of(record.id.site);
  auto goes_on = [&] { return !stopping_ && cells_.stays().of(record.id.site) == stay; };
  for (unsigned tries = 1; goes_on(); ++tries) {
    co_await context_.loop.sleep(back_off(tries));
    if (!goes_on()) co_return;
    retries_.add();
    if (co_await tell_all(record.id, record.participants, true)) {
      co_await erase(std::move(record), stay);
      co_return;
    }
  }
}

// Lazily: told again after a crash, the participants have nothing left to do.
Task<void> Intentions::erase(IntentionRecord record, Stay stay) {
  if (!co_await cells_.stays().until_open(record.id.site, stay)) co_return;
  storage::WriteBatch batch;
  batch.erase(intention_key(record.id));
  if (auto erased = cells_.apply(batch); !erased && log_.allow()) {
    log_error("a change was carried out, but its intention stays until the next start: {}",
              erased.error().message);
  }
  states_.erase(record.id);
  open_.set(states_.size());
}

wire::TransactionOutcome Intentions::outcome(const TransactionId& id) const {
  auto found = states_.find(id);
  if (found == states_.end()) return wire::TransactionOutcome::kAborted;
  return found->second == State::kRunning ? wire::TransactionOutcome::kRunning
                                          : wire::TransactionOutcome::kCommitted;
}

Status Intentions::recover(SiteId site) {
  KeyRange range = range_of(site, CellKind::kIntention);
  auto at = cells_.store().iterate(range.begin, range.end);
  for (; at->valid(); at->next()) {
    auto record = decode_intention(at->value());
    if (!record) return fail(std::move(record.error()));
    states_[record->id] = State::kDecided;
    spawn(tell_until_done(std::move(*record)));
  }
  open_.set(states_.size());
  return at->status();
}

void Intentions::release(SiteId site) {
  std::erase_if(states_, [&](const auto& each) { return each.first.site == site; });
  open_.set(states_.size());
}

}  // namespace slice::dirserver
