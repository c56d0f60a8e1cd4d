#include "dirserver/across/directory_parts.h"

#include <algorithm>

#include "dirserver/across/back_off.h"

namespace slice::dirserver {
namespace {

constexpr std::size_t kGivenSwept = 4096;  // leases given out before the ended ones are looked for

bool refused(const Result<wire::CellResult>& result) {
  return !result || (result->status != wire::PeerStatus::kOk && result->status != wire::PeerStatus::kStale);
}

}  // namespace

DirectoryParts::DirectoryParts(service::ServiceContext& context, CellStore& cells, LockTable& locks,
                               Peers& peers)
    : context_(context),
      cells_(cells),
      locks_(locks),
      peers_(peers),
      leases_(kLeaseCacheBytes),
      taken_(context.metrics.counter("directory_leases_taken_total",
                                     "name hashing: leases of directories asked of their homes")),
      revoked_(
          context.metrics.counter("directory_leases_revoked_total",
                                  "times that leases of a directory were called back before it changed")),
      touches_(context.metrics.counter("directory_touches_total",
                                       "touches sent to directories' homes; several changes share one")),
      owed_(context.metrics.gauge("directory_touches_owed",
                                  "directories whose homes do not know yet of a change of their names")) {}

const AttributeCell* DirectoryParts::leased(const CellRef& directory) {
  const Lease* lease = leases_.find(directory.fileid);
  if (lease == nullptr || lease->until <= context_.loop.now()) return nullptr;
  return lease->cell.self.cell == directory ? &lease->cell : nullptr;
}

void DirectoryParts::forget(FileId directory) {
  ++revocations_;
  leases_.erase(directory);
}

void DirectoryParts::keep(const AttributeCell& cell, MonoTime asked, std::uint64_t revocations) {
  if (revocations != revocations_) return;
  leases_.put(cell.self.cell.fileid, {cell, asked + kLease}, sizeof(Lease) + 128);
}

Task<Status> DirectoryParts::take_lease(CellRef directory) {
  MonoTime asked = context_.loop.now();
  std::uint64_t revocations = revocations_;
  taken_.add();
  auto cell = co_await peers_.read(directory, true);
  if (!cell) co_return fail(std::move(cell.error()));
  if (!*cell) co_return fail(Errc::kStale, "directory {:#x} is gone", directory.fileid.value);
  keep(**cell, asked, revocations);
  co_return Status{};
}

// ---- owed touches ----

namespace {

Task<bool> all_true(std::vector<OneShot<bool>> answers) {
  bool all = true;
  for (const OneShot<bool>& each : answers) all = co_await each && all;
  co_return all;
}

}  // namespace

Task<bool> DirectoryParts::tell(const std::vector<Transaction::Touch>& touches) {
  std::vector<OneShot<bool>> answers;
  for (const Transaction::Touch& touch : touches) {
    DebtKey key{touch.part, touch.owed.directory.fileid};
    Debt& debt = debts_[key];
    debt.owed.directory = touch.owed.directory;
    debt.stay = cells_.stays().of(touch.part);
    debt.owed.version = std::max(debt.owed.version, touch.owed.version);
    ++debt.changes;
    answers.push_back(debt.waiting.emplace_back());
    if (debt.sending) continue;
    debt.sending = true;
    spawn(pay(key, debt.stay));
  }
  owed_.set(debts_.size());
  return all_true(std::move(answers));
}

Status DirectoryParts::recover(SiteId site) {
  since_[site] = context_.loop.now();
  KeyRange range = range_of(site, CellKind::kOwedTouch);
  auto at = cells_.store().iterate(range.begin, range.end);
  for (; at->valid(); at->next()) {
    auto owed = decode_owed_touch(at->value());
    if (!owed) return fail(std::move(owed.error()));
    [[maybe_unused]] auto paid = tell({{site, *owed}});
  }
  return at->status();
}

void DirectoryParts::release(SiteId site) {
  since_.erase(site);
  std::erase_if(debts_, [&](auto& each) {
    if (each.first.first != site) return false;
    for (const OneShot<bool>& waiting : each.second.waiting)
      context_.loop.post([waiting] { waiting.set(false); });
    return true;
  });
  owed_.set(debts_.size());
}

DirectoryParts::Debt* DirectoryParts::debt_of(DebtKey key, Stay stay) {
  auto found = debts_.find(key);
  return found == debts_.end() || found->second.stay != stay ? nullptr : &found->second;
}

// Until the home has heard of everything.
Task<void> DirectoryParts::pay(DebtKey key, Stay stay) {
  for (unsigned failures = 0; !stopping_;) {
    const bool paid = co_await pay_once(key, stay);
    Debt* debt = debt_of(key, stay);
    if (debt == nullptr) co_return;
    if (paid) {
      if (debt->told == debt->changes) break;
      failures = 0;
      continue;
    }
    // Who waits for the home to know goes on without; it will know later.
    for (const OneShot<bool>& each : std::exchange(debt->waiting, {})) each.set(false);
    co_await context_.loop.sleep(back_off(++failures));
  }
  if (stopping_ || debt_of(key, stay) == nullptr) co_return;
  debts_.erase(key);
  owed_.set(debts_.size());
}

Task<bool> DirectoryParts::pay_once(DebtKey key, Stay stay) {
  Debt* owed = debt_of(key, stay);
  if (owed == nullptr) co_return false;
  Debt& debt = *owed;
  std::uint64_t changes = debt.changes;
  CellRef directory = debt.owed.directory;
  std::vector<OneShot<bool>> waiting = std::exchange(debt.waiting, {});
  wire::TouchArgs args{.directory = name_of(directory), .part = key.first, .version = debt.owed.version};
  auto part = cells_.part(key.first, directory);
  if (part) args.subdirectories = part->subdirectories;
  // The home must not hear of what a crash here could still undo.
  Status durable = co_await cells_.durable(cells_.pending(directory.fileid));
  MonoTime asked = context_.loop.now();
  std::uint64_t revocations = revocations_;
  bool heard = false;
  if (part && durable) {
    touches_.add();
    auto result =
        co_await peers_.call_owner<wire::CellResult>(directory.site, wire::DirectoryProcedure::kTouch, args);
    heard = !refused(result);
    if (heard && result->status == wire::PeerStatus::kOk) {
      if (auto cell = decode_attribute_cell(directory.site, result->cell)) keep(*cell, asked, revocations);
    }
    if (!heard && log_.allow()) {
      log_warning("a touch of directory {:#x} waits: {}", directory.fileid.value,
                  result ? "the home refused" : result.error().message);
    }
  }
  if (heard && co_await cells_.stays().until_open(key.first, stay)) {
    if (Debt* now = debt_of(key, stay)) {
      now->told = changes;
      settle(key, *now);
    }
  }
  for (const OneShot<bool>& each : waiting) each.set(heard);
  co_return heard;
}

// Erases the record once nothing newer is owed; lazily: told twice is harmless.
void DirectoryParts::settle(DebtKey key, const Debt& debt) {
  if (debt.told != debt.changes) return;
  storage::WriteBatch batch;
  batch.erase(owed_touch_key(key.first, key.second));
  if (auto erased = cells_.apply(batch); !erased && log_.allow()) {
    log_error("a touch was made, but its record stays until the next start: {}", erased.error().message);
  }
}

// ---- at the home ----

void DirectoryParts::grant(FileId directory) {
  MonoTime now = context_.loop.now();
  if (given_.size() >= kGivenSwept) {
    std::erase_if(given_, [&](const auto& each) { return each.second.until <= now; });
  }
  given_[directory] = {now + kLease, ++grants_};
}

// By the process before this one, or by who had the site before.
MonoTime DirectoryParts::unknown_until(FileId directory) const {
  auto since = since_.find(routing::directory_site_of(directory));
  return since == since_.end() ? MonoTime{} : since->second + kLease;
}

bool DirectoryParts::given_out(FileId directory) const {
  MonoTime now = context_.loop.now();
  if (now < unknown_until(directory)) return true;
  auto found = given_.find(directory);
  return found != given_.end() && found->second.until > now;
}

Task<void> DirectoryParts::revoke(FileId directory) {
  if (!given_out(directory)) co_return;
  revoked_.add();
  auto found = given_.find(directory);
  MonoTime end = unknown_until(directory);
  std::uint64_t number = 0;
  if (found != given_.end()) {
    end = std::max(end, found->second.until);
    number = found->second.number;
  }
  std::vector<Task<Result<wire::PeerResult>>> calls;
  for (SiteId other : peers_.others()) {
    calls.push_back(peers_.call<wire::PeerResult>(other, wire::DirectoryProcedure::kRevoke,
                                                  wire::RevokeArgs{directory}, kLease));
  }
  auto answers = co_await all(std::move(calls));
  bool everybody = std::all_of(answers.begin(), answers.end(), [](const auto& answer) {
    return answer && answer->status == wire::PeerStatus::kOk;
  });
  MonoTime now = context_.loop.now();
  // Who did not answer may still have it, until it ends by itself.
  if (!everybody && now < end) co_await context_.loop.sleep(end - now);
  // Whoever wanted this may have let go of the lock long ago, and another lease been given out since.
  found = given_.find(directory);
  if (found != given_.end() && found->second.number == number) given_.erase(found);
}

Task<wire::CellResult> DirectoryParts::touched(const wire::TouchArgs& args) {
  CellRef ref = ref_of(args.directory);
  for (;;) {
    if (!co_await peers_.here(ref.site)) co_return wire::CellResult{wire::PeerStatus::kMisdirected, {}};
    if (locks_.stops_change({ref.fileid, {}}, LockMode::kShared, nullptr)) {
      co_await locks_.changed({ref.fileid, {}}, std::chrono::seconds(1));
      continue;
    }
    Transaction transaction(cells_);
    auto status = transaction.touch(ref, args.part, {args.version, args.subdirectories},
                                    nfs3::time_of(context_.loop.wall()));
    if (!status) co_return wire::CellResult{wire::PeerStatus::kFailed, {}};
    if (!*status) co_return wire::CellResult{wire::PeerStatus::kStale, {}};
    auto position = transaction.commit();
    if (!position) co_return wire::CellResult{wire::PeerStatus::kFailed, {}};
    auto cell = cells_.attributes(ref);
    if (!cell || *cell == nullptr) co_return wire::CellResult{wire::PeerStatus::kFailed, {}};
    wire::CellResult result{wire::PeerStatus::kOk, encode(**cell)};
    grant(ref.fileid);
    if (auto durable = co_await cells_.durable(*position); !durable)
      result.status = wire::PeerStatus::kFailed;
    co_return result;
  }
}

}  // namespace slice::dirserver
