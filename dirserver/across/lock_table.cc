#include "dirserver/across/lock_table.h"

#include <algorithm>

#include "common/trace.h"

namespace slice::dirserver {
namespace {

bool conflict(LockMode a, LockMode b) {
  return a == LockMode::kExclusive || b == LockMode::kExclusive;
}

}  // namespace

LockTable::Verdict LockTable::judge(const LockOwner& owner, const Entry& entry, LockMode mode) const {
  Verdict verdict = Verdict::kGranted;
  for (const Holder& holder : entry.holders) {
    if (holder.owner == owner || !conflict(holder.mode, mode)) continue;
    if (holder.owner.older_than(owner)) return Verdict::kRefused;
    verdict = Verdict::kWait;
  }
  bool holds_already = std::any_of(entry.holders.begin(), entry.holders.end(),
                                   [&](const Holder& holder) { return holder.owner == owner; });
  bool queue = mode == LockMode::kShared && entry.exclusive_waiters > 0 && !holds_already;
  return verdict == Verdict::kGranted && queue ? Verdict::kRefused : verdict;
}

void LockTable::grant(const LockOwner& owner, LockKey key, LockMode mode) {
  Entry& entry = entries_[key];
  for (Holder& holder : entry.holders) {
    if (!(holder.owner == owner)) continue;
    if (mode == LockMode::kExclusive) holder.mode = mode;
    return;
  }
  entry.holders.push_back({owner, mode});
  held_[owner.id].push_back(key);
}

bool LockTable::try_acquire(const LockOwner& owner, LockKey key, LockMode mode) {
  auto found = entries_.find(key);
  if (found != entries_.end() && judge(owner, found->second, mode) != Verdict::kGranted) return false;
  grant(owner, key, mode);
  return true;
}

Task<bool> LockTable::acquire(LockOwner owner, LockKey key, LockMode mode, Duration limit) {
  MonoTime deadline = loop_.now() + limit;
  for (;;) {
    auto found = entries_.find(key);
    Verdict verdict = found == entries_.end() ? Verdict::kGranted : judge(owner, found->second, mode);
    if (verdict == Verdict::kGranted) {
      grant(owner, key, mode);
      co_return true;
    }
    if (verdict == Verdict::kRefused || loop_.now() >= deadline) co_return false;
    co_await wait(key, mode == LockMode::kExclusive, deadline - loop_.now());
  }
}

bool LockTable::holds(const TransactionId& owner, LockKey key, LockMode mode) const {
  auto found = entries_.find(key);
  if (found == entries_.end()) return false;
  return std::any_of(found->second.holders.begin(), found->second.holders.end(), [&](const Holder& holder) {
    return holder.owner.id == owner && (mode == LockMode::kShared || holder.mode == LockMode::kExclusive);
  });
}

void LockTable::prepare(const TransactionId& owner) {
  auto held = held_.find(owner);
  if (held == held_.end()) return;
  for (const LockKey& key : held->second) {
    for (Holder& holder : entries_[key].holders) {
      if (holder.owner.id == owner) holder.prepared = true;
    }
  }
}

void LockTable::make_oldest(const TransactionId& owner) {
  auto held = held_.find(owner);
  if (held == held_.end()) return;
  for (const LockKey& key : held->second) {
    Entry& entry = entries_[key];
    for (Holder& holder : entry.holders) {
      if (holder.owner.id == owner) holder.owner.age = kOldest;
    }
    wake(entry);
  }
}

void LockTable::release(const TransactionId& owner) {
  auto held = held_.extract(owner);
  if (!held.empty()) let_go(owner, held.mapped());
}

void LockTable::release_all_but(const TransactionId& owner, LockKey kept) {
  auto held = held_.find(owner);
  if (held == held_.end()) return;
  auto others = std::partition(held->second.begin(), held->second.end(),
                               [&](const LockKey& key) { return key == kept; });
  std::vector<LockKey> gone(others, held->second.end());
  held->second.erase(others, held->second.end());
  let_go(owner, gone);
}

void LockTable::let_go(const TransactionId& owner, const std::vector<LockKey>& keys) {
  for (const LockKey& key : keys) {
    auto found = entries_.find(key);
    std::erase_if(found->second.holders, [&](const Holder& holder) { return holder.owner.id == owner; });
    wake(found->second);
    drop_if_idle(key);
  }
}

bool LockTable::stops_change(LockKey key, LockMode mode, const TransactionId* self) const {
  if (entries_.empty()) return false;
  auto found = entries_.find(key);
  if (found == entries_.end()) return false;
  return std::any_of(found->second.holders.begin(), found->second.holders.end(), [&](const Holder& holder) {
    return conflict(holder.mode, mode) && (self == nullptr || holder.owner.id != *self);
  });
}

bool LockTable::stops_reading(LockKey key) const {
  if (entries_.empty()) return false;
  auto found = entries_.find(key);
  if (found == entries_.end()) return false;
  return std::any_of(found->second.holders.begin(), found->second.holders.end(), [](const Holder& holder) {
    return holder.prepared && holder.mode == LockMode::kExclusive;
  });
}

std::optional<LockKey> LockTable::prepared_in(FileId directory) const {
  for (auto at = entries_.lower_bound({directory, {}}); at != entries_.end() && at->first.file == directory;
       ++at) {
    if (stops_reading(at->first)) return at->first;
  }
  return std::nullopt;
}

Task<void> LockTable::wait(LockKey key, bool exclusive, Duration limit) {
  OneShot<bool> woken;
  Entry& entry = entries_[key];
  entry.waiting.push_back(woken);
  if (exclusive) ++entry.exclusive_waiters;
  TimerId timer = loop_.after(limit, [woken] { woken.set(false); });
  TraceScope step(co_await current_trace(), {.kind = TraceStep::Kind::kLock});
  co_await woken;
  loop_.cancel(timer);
  Entry& now = entries_[key];
  if (exclusive) --now.exclusive_waiters;
  std::erase_if(now.waiting, [](const OneShot<bool>& each) { return each.is_set(); });
  drop_if_idle(key);
}

Task<void> LockTable::until_free(FileId file) {
  LockKey key{file, {}};
  while (stops_change(key, LockMode::kExclusive, nullptr)) co_await changed(key, std::chrono::seconds(1));
}

Task<void> LockTable::until_readable(LockKey key) {
  while (stops_reading(key)) co_await changed(key, std::chrono::seconds(1));
}

Task<void> LockTable::listing_changed(FileId directory, Duration limit) {
  return wait(prepared_in(directory).value_or(LockKey{directory, {}}), false, limit);
}

void LockTable::wake(Entry& entry) {
  for (const OneShot<bool>& waiter : entry.waiting) {
    loop_.post([waiter] { waiter.set(true); });
  }
}

void LockTable::drop_if_idle(LockKey key) {
  auto found = entries_.find(key);
  if (found == entries_.end()) return;
  const Entry& entry = found->second;
  if (entry.holders.empty() && entry.waiting.empty() && entry.exclusive_waiters == 0) entries_.erase(found);
}

}  // namespace slice::dirserver
