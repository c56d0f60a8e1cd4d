#include "coordinator/intentions.h"

#include <algorithm>
#include <utility>

#include "common/log.h"

namespace slice::coordinator {

using storage::LogSequence;

Status replay_record(OpenIntentions& open, LogSequence sequence, ByteView record) {
  auto decoded = decode_record(record);
  if (!decoded) return fail(std::move(decoded).error());
  if (const auto* intention = std::get_if<Intention>(&*decoded)) {
    open.emplace(sequence, *intention);
  } else {
    for (LogSequence cleared : std::get<Cleared>(*decoded).intentions) open.erase(cleared);
  }
  return {};
}

Intentions::Intentions(service::ServiceContext& context, Options options)
    : context_(context),
      options_(options),
      appended_(
          context.metrics.counter("coordinator_log_records_total", "records written to the intention log")),
      open_gauge_(
          context.metrics.gauge("coordinator_open_intentions", "intentions in the log that are not cleared")),
      carried_total_(context.metrics.counter("coordinator_intentions_carried_total",
                                             "intentions written again so that old log segments can go")),
      failures_(context.metrics.counter("coordinator_log_failures_total",
                                        "records that could not be written to the intention log")) {}

Task<Result<std::shared_ptr<Intentions>>> Intentions::open(service::ServiceContext& context, Options options,
                                                           Owed& owed) {
  std::shared_ptr<Intentions> self(new Intentions(context, options));
  storage::Log::Options log_options;
  log_options.folder = "intentions";
  log_options.segment_bytes = options.segment_bytes;
  auto log = co_await storage::Log::open(
      context.loop, context.disk, context.metrics, log_options,
      [self](LogSequence sequence, ByteView record) { return replay_record(self->open_, sequence, record); });
  if (!log) co_return fail(log.error(), "intention log");
  self->log_ = std::move(*log);
  co_await context.crash.reach("intentions.recovered");
  self->open_gauge_.set(self->open_.size());
  owed.assign(self->open_.begin(), self->open_.end());
  co_return self;
}

void Intentions::note_failure(const Error& error) {
  failures_.add();
  if (error.code == Errc::kNoSpace) {
    log_warning("the intention log has no space: {}", error.message);
    return;
  }
  if (std::exchange(healthy_, false)) log_error("the intention log failed: {}", error.message);
}

Result<LogSequence> Intentions::append(ByteView record) {
  auto sequence = log_->append(record);
  if (!sequence) {
    note_failure(sequence.error());
  } else {
    appended_.add();
  }
  return sequence;
}

Result<LogSequence> Intentions::begin(const Intention& intention) {
  if (auto status = append_cleared(); !status) return fail(std::move(status).error());
  auto sequence = append(encode_record(intention).view());
  if (!sequence) return sequence;
  open_.emplace(*sequence, intention);
  open_gauge_.set(open_.size());
  return sequence;
}

Task<Status> Intentions::durable(LogSequence sequence) {
  auto self = shared_from_this();
  auto status = co_await log_->sync(sequence);
  if (!status) note_failure(status.error());
  co_return status;
}

LogSequence Intentions::present(LogSequence sequence) const {
  auto carried = carried_.find(sequence);
  return carried == carried_.end() ? sequence : carried->second;
}

void Intentions::leave(LogSequence sequence) {
  if (open_.contains(present(sequence))) left_.insert(sequence);
}

Intentions::Owed Intentions::take_up(const Which& wanted) {
  Owed taken;
  for (auto at = left_.begin(); at != left_.end();) {
    const Intention& intention = open_.at(present(*at));
    if (!wanted(intention)) {
      ++at;
      continue;
    }
    taken.emplace_back(*at, intention);
    at = left_.erase(at);
  }
  return taken;
}

Task<Status> Intentions::drop(const Which& which) {
  auto self = shared_from_this();
  std::erase_if(open_, [&](const auto& each) {
    if (!which(each.second)) return false;
    ended_.push_back(each.first);
    return true;
  });
  std::erase_if(left_, [&](LogSequence sequence) { return !open_.contains(present(sequence)); });
  std::erase_if(carried_, [&](const auto& each) { return !open_.contains(each.second); });
  open_gauge_.set(open_.size());
  co_return co_await sync();
}

Task<Status> Intentions::sync() {
  auto self = shared_from_this();
  SLICE_CO_RETURN_IF_ERROR(append_cleared());
  co_return co_await durable(log_->last());
}

void Intentions::end(LogSequence sequence) {
  left_.erase(sequence);
  if (auto carried = carried_.find(sequence); carried != carried_.end()) {
    sequence = carried->second;
    carried_.erase(carried);
  }
  if (open_.erase(sequence) == 0) return;
  open_gauge_.set(open_.size());
  ended_.push_back(sequence);
  tidy_later();
}

Status Intentions::append_cleared() {
  while (!ended_.empty()) {
    std::size_t count = std::min(ended_.size(), kMaxCleared);
    auto first = ended_.end() - static_cast<std::ptrdiff_t>(count);
    auto sequence = append(encode_record(Cleared{{first, ended_.end()}}).view());
    if (!sequence) return fail(std::move(sequence).error());
    ended_.erase(first, ended_.end());
  }
  return {};
}

// Writes the open intentions once more, at the end of the log. A crash in between leaves one twice: it is
// then fulfilled twice.
Status Intentions::carry_forward() {
  std::map<LogSequence, LogSequence> first_of;  // present sequence to the one its operation knows
  for (auto [first, present] : carried_) first_of[present] = first;
  for (const auto& [old, intention] : std::exchange(open_, {})) {
    auto sequence = append(encode_record(intention).view());
    if (!sequence) {
      open_.emplace(old, intention);
      continue;
    }
    open_.emplace(*sequence, intention);
    ended_.push_back(old);
    auto first = first_of.find(old);
    carried_[first == first_of.end() ? old : first->second] = *sequence;
    carried_total_.add();
  }
  return append_cleared();
}

void Intentions::tidy_later() {
  if (tidy_armed_) return;
  tidy_armed_ = true;
  context_.loop.after(options_.clear_delay, [weak = weak_from_this()] {
    auto self = weak.lock();
    if (!self) return;
    self->tidy_armed_ = false;
    spawn([](std::shared_ptr<Intentions> alive) -> Task<void> {
      // A failure is logged and counted where it arises; what was not cleared is fulfilled twice.
      (void)co_await alive->tidy();
    }(self));
  });
}

Task<Status> Intentions::tidy() {
  SLICE_CO_RETURN_IF_ERROR(append_cleared());
  if (log_->bytes() > options_.carry_forward_bytes && !open_.empty()) {
    SLICE_CO_RETURN_IF_ERROR(carry_forward());
  }
  LogSequence last = log_->last();
  co_await context_.crash.reach("intentions.clearing");
  SLICE_CO_RETURN_IF_ERROR(co_await durable(last));
  co_await context_.crash.reach("intentions.cleared");
  LogSequence oldest = open_.empty() ? LogSequence{last.value + 1} : open_.begin()->first;
  SLICE_CO_RETURN_IF_ERROR(co_await log_->trim(oldest));
  co_await context_.crash.reach("intentions.trimmed");
  co_return Status{};
}

Task<void> Intentions::flush() {
  auto self = shared_from_this();
  if (healthy_) (void)co_await tidy();
  if (Status status = co_await log_->record_end(); !status) note_failure(status.error());
}

}  // namespace slice::coordinator
