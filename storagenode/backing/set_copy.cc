#include "storagenode/backing/set_copy.h"

#include <algorithm>
#include <vector>

namespace slice::storagenode {

using wire::BackingStatus;

SetCopy::SetCopy(SetSeams& seams, SetState state)
    : seams_(seams),
      state_(state),
      contents_(state.contents),
      files_(seams.loop, seams.disk, set_folder(state.server)),
      attaching_(seams.loop) {
  if (state_.epoch.value != 0 && !state_.let_go) session_end_ = seams_.loop.now() + wire::kBackingSession;
  any_run_ = !contents_.known();  // what is known is durable
}

// ---- whose calls ----

bool SetCopy::is_owner(const Owner& owner) const {
  return owner.epoch == state_.epoch && owner.instance == state_.instance;
}

BackingStatus SetCopy::check_owner(const Owner& owner) const {
  if (broken()) return BackingStatus::kIo;
  if (owner.epoch > state_.epoch) return BackingStatus::kGap;  // it attached to a node that had other files
  return is_owner(owner) ? BackingStatus::kOk : BackingStatus::kStale;
}

BackingStatus SetCopy::check_attached(const Owner& owner) const {
  const BackingStatus status = check_owner(owner);
  if (status != BackingStatus::kOk) return status;
  if (leaves_ || state_.let_go) return BackingStatus::kStale;
  return attached_ && !seams_.stopped ? BackingStatus::kOk : BackingStatus::kGap;
}

Duration SetCopy::held(std::uint64_t former) const {
  const bool ended = state_.let_go || state_.epoch.value == 0 || former == state_.instance;
  return ended ? Duration(0) : std::max(Duration(0), session_end_ - seams_.loop.now());
}

Task<wire::BackingAttachResult> SetCopy::attach(wire::BackingAttachArgs args) {
  auto lock = co_await attaching_.lock();
  wire::BackingAttachResult result{.known = state_.epoch};
  Duration wait{};
  result.status = co_await take_on(args, wait);
  result.wait_ms = static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(wait + std::chrono::microseconds(999)).count());
  result.changed = contents_.changed;
  result.applied = contents_.applied;
  co_return result;
}

Task<BackingStatus> SetCopy::take_on(const wire::BackingAttachArgs& args, Duration& wait) {
  if (broken()) co_return BackingStatus::kIo;
  const bool again = is_owner(args.owner);
  if (again ? leaves_ || state_.let_go : args.owner.epoch <= state_.epoch) co_return BackingStatus::kStale;
  if (!again) wait = held(args.former);
  if (wait > Duration(0)) {
    if (!waited_for_since_) waited_for_since_ = seams_.loop.now();
    co_return BackingStatus::kHeld;
  }
  if (!again || !attached_) {
    Status taken = co_await hand_over(args.owner, args.empty);
    if (!taken) co_return status_of(taken.error());
  }
  session_end_ = seams_.loop.now() + wire::kBackingSession;
  if (args.begins_behind > applied_) {
    applied_ = args.begins_behind;
    carried_ = 0;
    wake(applied_ + 1);
  }
  co_return BackingStatus::kOk;
}

// The former owner's calls find another one here from the first line on. Those that are under way end first,
// so that none of their bytes comes behind what the new owner is told.
Task<Status> SetCopy::hand_over(Owner owner, bool empty) {
  state_.epoch = owner.epoch;
  state_.instance = owner.instance;
  state_.let_go = leaves_ = attached_ = false;
  waited_for_since_.reset();
  session_end_ = seams_.loop.now() + wire::kBackingSession;
  wake_all();
  co_await idle();
  applied_ = 0;
  carried_ = 0;
  if (!empty) SLICE_CO_RETURN_IF_ERROR(co_await make_durable());
  if (empty) contents_ = {};
  state_.contents = contents_;
  SLICE_CO_RETURN_IF_ERROR(co_await save_set_state(seams_.disk, state_));
  co_await seams_.crash.reach("backing.owner");
  if (empty) {
    SLICE_CO_RETURN_IF_ERROR(co_await files_.remove_all());
    co_await seams_.crash.reach("backing.emptied");
    contents_ = {.changed = owner.epoch, .applied = 0};
    any_run_ = false;
  }
  attached_ = true;
  log_info("the backing set of server {} has another owner epoch={} instance={:x} contents={}/{}",
           state_.server, owner.epoch.value, owner.instance, contents_.changed.value, contents_.applied);
  co_return Status{};
}

Task<Status> SetCopy::make_durable() {
  if (!any_run_) co_return co_await files_.sync_all();
  SLICE_CO_RETURN_IF_ERROR(co_await files_.sync_all_of_any_run());
  any_run_ = false;
  co_return Status{};
}

bool SetCopy::is_waited_for() const {
  return waited_for_since_ && seams_.loop.now() - *waited_for_since_ >= wire::kBackingSession;
}

// The manager gives a later epoch when the owner is to be another. Who has not heard of it by then hears it
// here: that one may reach every node, and no manager.
BackingStatus SetCopy::renew(const Owner& owner) {
  BackingStatus status = check_owner(owner);
  if (status == BackingStatus::kOk && (leaves_ || state_.let_go || is_waited_for()))
    status = BackingStatus::kStale;
  if (status == BackingStatus::kOk) session_end_ = seams_.loop.now() + wire::kBackingSession;
  return status;
}

Task<BackingStatus> SetCopy::let_go(Owner owner) {
  auto lock = co_await attaching_.lock();
  const BackingStatus status = check_owner(owner);
  if (status != BackingStatus::kOk || state_.let_go) co_return status;
  leaves_ = true;
  wake_all();
  co_await idle();
  if (Status durable = co_await make_durable(); !durable) co_return status_of(durable.error());
  SetState next = state_;
  next.let_go = true;
  next.contents = contents_;
  if (Status saved = co_await save_set_state(seams_.disk, next); !saved) co_return status_of(saved.error());
  co_await seams_.crash.reach("backing.let_go");
  state_ = next;
  log_info("the backing set of server {} is let go epoch={} contents={}/{}", state_.server, owner.epoch.value,
           contents_.changed.value, contents_.applied);
  co_return BackingStatus::kOk;
}

// ---- the order of calls ----

Task<void> SetCopy::wait(std::uint64_t number, MonoTime until) {
  OneShot<bool> woken;
  const std::pair key{number, next_waiter_++};
  waiters_.emplace(key, woken);
  const TimerId timer = seams_.loop.at(until, [woken] { woken.set(false); });
  co_await woken;
  seams_.loop.cancel(timer);
  waiters_.erase(key);
}

void SetCopy::wake(std::uint64_t number) {
  for (auto& [key, waiter] : waiters_) {
    if (key.first > number) break;
    seams_.loop.post([woken = waiter] { woken.set(true); });
  }
}

Task<void> SetCopy::idle() {
  if (active_ == 0) co_return;
  idle_.emplace();
  const OneShot<bool> ended = *idle_;
  co_await ended;
}

void SetCopy::end() {
  if (--active_ > 0 || !idle_) return;
  const OneShot<bool> ended = *std::exchange(idle_, std::nullopt);
  seams_.loop.post([ended] { ended.set(true); });
}

// Nothing of what has to come before it has begun for so long.
bool SetCopy::is_gap(MonoTime came) const {
  return !running_ && seams_.loop.now() >= std::max(came, progress_) + kPatience;
}

Task<BackingStatus> SetCopy::turn(const wire::BackingChangeArgs& args) {
  const MonoTime came = seams_.loop.now();
  std::uint64_t bytes = 0;
  for (const wire::BackingChange& each : args.changes) bytes += each.bytes.size();
  for (;;) {
    const BackingStatus status = check_attached(args.owner);
    if (status != BackingStatus::kOk) co_return status;
    if (args.number <= applied_ || (args.number == applied_ + 1 && !running_)) co_return BackingStatus::kOk;
    const bool full = waiting_ >= kMostWaiting || seams_.waiting_bytes + bytes > kMostWaitingBytes;
    if (full || is_gap(came)) co_return BackingStatus::kGap;
    ++waiting_;
    seams_.waiting_bytes += bytes;
    co_await wait(args.number, (running_ ? seams_.loop.now() : std::max(came, progress_)) + kPatience);
    --waiting_;
    seams_.waiting_bytes -= bytes;
  }
}

Task<BackingStatus> SetCopy::after(const Owner& owner, std::uint64_t number) {
  const MonoTime came = seams_.loop.now();
  for (;;) {
    const BackingStatus status = check_attached(owner);
    if (status != BackingStatus::kOk || number <= applied_) co_return status;
    if (waiting_ >= kMostWaiting || is_gap(came)) co_return BackingStatus::kGap;
    ++waiting_;
    // wake() is called with the number that may begin: one more than what is carried out.
    co_await wait(number == ~std::uint64_t{0} ? number : number + 1,
                  (running_ ? seams_.loop.now() : std::max(came, progress_)) + kPatience);
    --waiting_;
  }
}

Task<BackingStatus> SetCopy::change(const wire::BackingChangeArgs& args) {
  const BackingStatus status = co_await turn(args);
  if (status != BackingStatus::kOk) co_return status;
  // Nothing comes between that and this: the owner is still the owner.
  begin();
  SetFiles::Syncs syncs;
  Status done;
  if (args.number > applied_) {
    running_ = true;
    done = co_await carry_out(args, syncs);
    running_ = false;
    progress_ = seams_.loop.now();
    wake(applied_ + 1);
  } else {
    for (const wire::BackingChange& each : args.changes) {
      if (each.op >= wire::BackingOp::kSync) files_.collect(each, syncs);
    }
  }
  if (done) done = co_await files_.sync(std::move(syncs));
  const BackingStatus result = done ? BackingStatus::kOk : status_of(done.error());
  if (files_.failed()) wake_all();
  end();
  co_return result;
}

Task<Status> SetCopy::forget_contents() {
  contents_ = {};
  if (!state_.contents.known()) co_return Status{};
  SetState next = state_;
  next.contents = {};
  SLICE_CO_RETURN_IF_ERROR(co_await save_set_state(seams_.disk, next));
  co_await seams_.crash.reach("backing.changes");
  state_.contents = {};
  co_return Status{};
}

Task<Status> SetCopy::carry_out(const wire::BackingChangeArgs& args, SetFiles::Syncs& syncs) {
  SLICE_CO_RETURN_IF_ERROR(co_await forget_contents());
  const bool room = seams_.room();
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < args.changes.size(); ++i) {
    const wire::BackingChange& each = args.changes[i];
    if (each.op >= wire::BackingOp::kSync) {
      files_.collect(each, syncs);
    } else if (i >= carried_) {
      if (Status done = co_await files_.carry_out(each, room); !done) {
        // The next attempt goes on here: a rename that is done again would take what came under its name
        // since.
        if (args.number == applied_ + 1) carried_ = i;
        co_return done;
      }
      if (each.op == wire::BackingOp::kWrite) bytes += each.bytes.size();
    }
  }
  carried_ = 0;
  applied_ = std::max(applied_, args.number);
  if (args.whole) contents_ = {.changed = args.owner.epoch, .applied = args.number};
  seams_.changes.add();
  seams_.bytes.add(bytes);
  co_return Status{};
}

BackingStatus SetCopy::status_of(const Error& error) {
  const bool full = error.code == Errc::kNoSpace;
  if (seams_.failure_log.allow())
    log_warning("the backing set of server {}: {}{}", state_.server, error.message,
                files_.failed() ? "; nothing of it is taken until this node is started again" : "");
  return full && !broken() ? BackingStatus::kNoSpace : BackingStatus::kIo;
}

// ---- what is read ----

// For whoever owns the set, by the order of the changes; for who looks ahead, as it is now.
Task<BackingStatus> SetCopy::may_read(const Owner& owner, std::uint64_t number) {
  if (!is_nobody(owner)) co_return co_await after(owner, number);
  co_return check_reader(owner);
}

BackingStatus SetCopy::check_reader(const Owner& owner) const {
  if (!is_nobody(owner)) return check_attached(owner);
  return broken() || seams_.stopped ? BackingStatus::kIo : BackingStatus::kOk;
}

Task<BackingStatus> SetCopy::read(const wire::BackingReadArgs& args, ByteSpan into, std::size_t& got) {
  BackingStatus status = co_await may_read(args.owner, args.after);
  if (status != BackingStatus::kOk) co_return status;
  auto bytes = co_await files_.read(args.path, args.offset, into);
  status = check_reader(args.owner);
  if (status != BackingStatus::kOk) co_return status;
  if (!bytes && bytes.error().code == Errc::kNotFound) co_return BackingStatus::kNotFound;
  if (!bytes) co_return status_of(bytes.error());
  got = *bytes;
  co_return BackingStatus::kOk;
}

Task<wire::BackingListResult> SetCopy::list(const wire::BackingListArgs& args) {
  wire::BackingListResult result;
  result.status = co_await may_read(args.owner, args.after);
  if (result.status != BackingStatus::kOk) co_return result;
  auto files = co_await files_.list(args.behind, result.end);
  result.status = check_reader(args.owner);
  if (result.status != BackingStatus::kOk) co_return result;
  if (!files) {
    result.status = status_of(files.error());
  } else {
    result.files = std::move(*files);
  }
  co_return result;
}

Task<wire::BackingDigestResult> SetCopy::digest(const wire::BackingDigestArgs& args) {
  wire::BackingDigestResult result;
  result.status = co_await after(args.owner, args.after);
  if (result.status != BackingStatus::kOk) co_return result;
  auto digests = co_await files_.digest(args.path, args.first, args.count, result.size);
  result.status = check_attached(args.owner);
  if (result.status != BackingStatus::kOk) co_return result;
  if (!digests && digests.error().code == Errc::kNotFound) {
    result.status = BackingStatus::kNotFound;
  } else if (!digests) {
    result.status = status_of(digests.error());
  } else {
    result.digests = std::move(*digests);
  }
  co_return result;
}

}  // namespace slice::storagenode
