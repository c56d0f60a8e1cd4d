#include "dirserver/across/participant.h"

#include <algorithm>

#include "dirserver/across/objects.h"
#include "dirserver/cells/cells_codec.h"

namespace slice::dirserver {
namespace {

using wire::LockItem;
using wire::PeerStatus;

constexpr std::size_t kEndedKept = 16384;

struct WantedLock {
  LockKey key;
  LockMode mode;
};

LockMode mode_of(const LockItem& item) {
  return item.exclusive ? LockMode::kExclusive : LockMode::kShared;
}

std::vector<WantedLock> locks_of(const LockItem& item) {
  switch (item.kind) {
    case LockItem::Kind::kCell:
    case LockItem::Kind::kPart:
      return {{{item.cell.file, {}}, mode_of(item)}};
    case LockItem::Kind::kName:
      return {{{item.cell.file, {}}, LockMode::kShared},
              {{item.cell.file, Position{item.position}}, LockMode::kExclusive}};
    case LockItem::Kind::kRename:
      return {{kRenameLock, LockMode::kExclusive}};
    case LockItem::Kind::kNew:  // value_of() locks what it gives
      return {};
  }
  return {};
}

wire::LockResult refused(PeerStatus status) {
  return {.status = status, .values = {}};
}

std::vector<WantedLock> locks_of(const PreparedRecord& record) {
  std::vector<WantedLock> locks;
  if (record.rename_lock) locks.push_back({kRenameLock, LockMode::kExclusive});
  for (const Step& step : record.what.steps) {
    if (const auto* cell = std::get_if<CellStep>(&step)) {
      locks.push_back({{cell->cell.self.cell.fileid, {}}, LockMode::kExclusive});
    } else {
      const auto& name = std::get<NameStep>(step);
      locks.push_back({{name.directory.fileid, {}}, LockMode::kShared});
      locks.push_back({{name.directory.fileid, name.position}, LockMode::kExclusive});
    }
  }
  return locks;
}

}  // namespace

Participant::Participant(const Seams& seams)
    : seams_(seams),
      incarnation_(seams.context.random()),
      locks_given_(seams.context.metrics.counter("directory_locks_total",
                                                 "locks given to changes that other servers began")),
      locks_refused_(seams.context.metrics.counter(
          "directory_locks_refused_total", "LOCK calls refused, since an older change holds something")),
      prepared_(seams.context.metrics.counter("directory_changes_prepared_total",
                                              "promises made to changes that other servers began")),
      committed_(seams.context.metrics.counter("directory_changes_carried_out_total",
                                               "promised changes of other servers that were carried out")),
      aborted_(seams.context.metrics.counter("directory_changes_given_up_total",
                                             "promised changes of other servers that were given up")),
      under_way_(seams.context.metrics.gauge("directory_changes_under_way",
                                             "changes of other servers that hold something here")) {}

void Participant::count() {
  under_way_.set(guests_.size());
}

bool Participant::over(const TransactionId& id) const {
  auto guest = guests_.find(id);
  return ended_.contains(id) || (guest != guests_.end() && guest->second.finished_at);
}

void Participant::forget(const TransactionId& id) {
  seams_.locks.release(id);
  guests_.erase(id);
  if (ended_.insert(id).second) ended_order_.push_back(id);
  if (ended_order_.size() > kEndedKept) {
    ended_.erase(ended_order_.front());
    ended_order_.pop_front();
  }
  count();
}

// ---- LOCK ----

Task<wire::LockResult> Participant::lock(const wire::LockArgs& args) {
  wire::LockResult result{.incarnation = incarnation_, .values = {}};
  LockOwner owner{id_of(args.id), args.age};
  if (over(owner.id)) co_return refused(PeerStatus::kRefused);
  Guest& guest = guests_[owner.id];
  guest.owner = owner;
  guest.heard = seams_.context.loop.now();
  count();
  watch_soon();
  for (const LockItem& item : args.items) {
    if (!seams_.peers.owns(item.cell.site)) co_return refused(PeerStatus::kMisdirected);
    if (!co_await lock_item(owner, item)) {
      locks_refused_.add();
      co_return refused(PeerStatus::kRefused);
    }
  }
  storage::LogPosition shown;
  for (const LockItem& item : args.items) {
    if (!seams_.peers.owns(item.cell.site)) co_return refused(PeerStatus::kMisdirected);
    Value value = value_of(owner, item, shown);
    if (!value) {
      log_error("a cell that is to be locked cannot be read: {}", value.error().message);
      co_return refused(PeerStatus::kFailed);
    }
    result.values.push_back(std::move(*value));
  }
  // What is decided upon must not be forgotten by a crash here.
  if (!co_await seams_.cells.durable(shown)) co_return refused(PeerStatus::kFailed);
  if (over(owner.id)) co_return refused(PeerStatus::kRefused);
  locks_given_.add(args.items.size());
  co_return result;
}

Task<bool> Participant::lock_item(LockOwner owner, LockItem item) {
  for (const WantedLock& wanted : locks_of(item)) {
    bool got = co_await seams_.locks.acquire(owner, wanted.key, wanted.mode, kLockLimit);
    if (over(owner.id)) {
      seams_.locks.release(owner.id);
      co_return false;
    }
    if (!got) co_return false;
  }
  if (!seams_.placement.hashed() || !item.exclusive) co_return true;
  if (item.kind == LockItem::Kind::kPart) seams_.parts.forget(item.cell.file);
  if (item.kind == LockItem::Kind::kCell) co_await seams_.parts.revoke(item.cell.file);
  co_return !over(owner.id);
}

Participant::Value Participant::value_of(const LockOwner& owner, const LockItem& item,
                                         storage::LogPosition& shown) {
  shown = std::max(shown, seams_.cells.pending(item.cell.file));
  CellRef ref = ref_of(item.cell);
  switch (item.kind) {
    case LockItem::Kind::kCell: {
      auto cell = seams_.cells.attributes(ref);
      if (!cell) return fail(std::move(cell.error()));
      return *cell == nullptr ? std::string() : encode(**cell);
    }
    case LockItem::Kind::kName: {
      NamePlace place{ref.site, ref, Position{item.position}, item.name};
      auto entry = seams_.cells.find(place);
      if (!entry) return fail(std::move(entry.error()));
      if (*entry == nullptr) {
        auto full = seams_.cells.position_full(place);
        if (!full) return fail(std::move(full.error()));
        return std::string(*full ? wire::kPositionFull : std::string_view());
      }
      CellWriter out;
      out.target((*entry)->target);
      return out.take();
    }
    case LockItem::Kind::kPart:
      return part_value(ref);
    case LockItem::Kind::kRename:
      return std::string();
    case LockItem::Kind::kNew:
      return new_value(owner, ref.site);
  }
  return std::string();
}

// The directory's names on all of this server's sites; on its own site, it has no part.
Participant::Value Participant::part_value(const CellRef& directory) {
  wire::PartNames names;
  for (std::uint32_t site = 0; site < seams_.placement.sites(); ++site) {
    if (!seams_.peers.owns(SiteId{site})) continue;
    auto part = seams_.cells.part(SiteId{site}, directory);
    if (!part) return fail(std::move(part.error()));
    names.entries += part->entries;
    names.sites.add(SiteId{site});
  }
  return encode_value(names);
}

// A fileID that nobody else has or will have.
Participant::Value Participant::new_value(const LockOwner& owner, SiteId site) {
  if (seams_.low_on_space()) return std::string();
  auto fileid = Transaction(seams_.cells).allocate(site);
  if (!fileid && fileid.error().code == Errc::kUnavailable) return std::string();  // the site is about to go
  if (!fileid) return fail(std::move(fileid.error()));
  seams_.locks.try_acquire(owner, {*fileid, {}}, LockMode::kExclusive);
  std::uint8_t bytes[sizeof(fileid->value)];
  store_be(bytes, fileid->value);
  return std::string(as_text(ByteView(bytes)));
}

// ---- PREPARE ----

bool Participant::covered(const PreparedRecord& record) const {
  auto locks = locks_of(record);
  return std::all_of(locks.begin(), locks.end(), [&](const WantedLock& wanted) {
    return seams_.locks.holds(record.id, wanted.key, wanted.mode);
  });
}

// The records, where all of them make sense and what they change is locked.
std::optional<std::vector<PreparedRecord>> Participant::accept(const wire::PrepareArgs& args) {
  std::vector<PreparedRecord> records;
  for (const wire::PreparedPart& part : args.parts) {
    auto record = decode_prepared(part.site, part.record);
    if (!record || record->id != id_of(args.id) || !seams_.peers.owns(part.site) || !covered(*record)) {
      if (log_.allow()) {
        log_warning("a change of site {} is refused: {}", args.id.site.value,
                    record ? "its locks are gone" : record.error().message);
      }
      return std::nullopt;
    }
    records.push_back(std::move(*record));
  }
  return records;
}

// What was here may be about to go while the next one is waited for.
Task<bool> Participant::here(std::vector<SiteId> sites) {
  const Stays& stays = seams_.cells.stays();
  auto settled = [&](SiteId site) { return seams_.peers.owns(site) && !stays.closed(site); };
  while (!std::all_of(sites.begin(), sites.end(), settled)) {
    for (SiteId site : sites) {
      if (!co_await seams_.peers.here(site)) co_return false;
    }
  }
  co_return true;
}

Task<PeerStatus> Participant::prepare(const wire::PrepareArgs& args) {
  TransactionId id = id_of(args.id);
  std::vector<SiteId> sites;
  for (const wire::PreparedPart& part : args.parts) sites.push_back(part.site);
  co_await seams_.context.crash.reach("participant.prepare");
  if (!co_await here(std::move(sites))) co_return PeerStatus::kMisdirected;
  auto guest = guests_.find(id);
  if (guest == guests_.end() || over(id)) co_return PeerStatus::kRefused;
  guest->second.heard = seams_.context.loop.now();
  auto records = accept(args);
  if (!records) co_return PeerStatus::kRefused;
  storage::WriteBatch batch;
  for (const PreparedRecord& record : *records) batch.put(prepared_key(record.what.site, id), encode(record));
  auto position = seams_.cells.apply(batch);
  if (!position) {
    log_error("a change cannot be prepared: {}", position.error().message);
    co_return PeerStatus::kFailed;
  }
  guest->second.promised = std::move(*records);
  guest->second.prepared = true;
  seams_.locks.prepare(id);
  Status durable = co_await seams_.cells.durable(*position);
  co_await seams_.context.crash.reach("participant.prepared");
  if (!durable) co_return PeerStatus::kFailed;
  prepared_.add();
  co_return over(id) ? PeerStatus::kRefused : PeerStatus::kOk;
}

// ---- FINISH ----

Task<PeerStatus> Participant::finish(const wire::FinishArgs& args) {
  TransactionId id = id_of(args.id);
  bool commit = args.commit;
  if (!co_await here({args.site})) co_return PeerStatus::kMisdirected;
  co_return co_await end(id, commit);
}

Task<PeerStatus> Participant::end(TransactionId id, bool commit) {
  auto guest = guests_.find(id);
  if (guest == guests_.end()) {
    // Done before; or a LOCK of it is still on its way here, and finds nobody.
    forget(id);
    co_return PeerStatus::kOk;
  }
  if (guest->second.finished_at) {  // by another copy of this message
    bool durable = (co_await seams_.cells.durable(*guest->second.finished_at)).has_value();
    co_return durable ? PeerStatus::kOk : PeerStatus::kFailed;
  }
  if (commit && guest->second.prepared) co_return co_await carry_out(id);
  co_return co_await give_up(id);
}

Task<PeerStatus> Participant::carry_out(const TransactionId& finished) {
  TransactionId id = finished;
  co_await seams_.context.crash.reach("participant.finish");
  // A promise for a site that moves meanwhile goes with it.
  auto found = guests_.find(id);
  std::vector<SiteId> sites;
  if (found != guests_.end()) {
    for (const PreparedRecord& record : found->second.promised) sites.push_back(record.what.site);
  }
  if (sites.empty() || !co_await here(std::move(sites))) co_return PeerStatus::kMisdirected;
  found = guests_.find(id);
  if (found == guests_.end() || found->second.finished_at) co_return PeerStatus::kMisdirected;
  Guest& guest = found->second;
  Transaction transaction(seams_.cells);
  std::vector<ReclaimRecord> freed;
  Status status;
  for (const PreparedRecord& record : guest.promised) {
    status = dirserver::carry_out(record.what, nfs3::time_of(seams_.context.loop.wall()), seams_.reclaimer,
                                  transaction, freed);
    if (!status) break;
    transaction.erase_record(prepared_key(record.what.site, id));
  }
  Result<storage::LogPosition> position =
      status ? transaction.commit() : Result<storage::LogPosition>(fail(std::move(status.error())));
  if (!position) {
    // The directory's own site may be about to move: then it is told again.
    if (position.error().code != Errc::kUnavailable && log_.allow())
      log_error("a change that was promised fails: {}", position.error().message);
    co_return PeerStatus::kFailed;
  }
  Task<bool> told = seams_.parts.tell(transaction.touches());
  guest.finished_at = *position;
  seams_.locks.release(id);
  Status durable = co_await seams_.cells.durable(*position);
  co_await seams_.context.crash.reach("participant.finished");
  if (!durable) co_return PeerStatus::kFailed;
  for (ReclaimRecord& record : freed) seams_.reclaimer.enqueue(std::move(record));
  co_await told;
  committed_.add();
  forget(id);
  co_return PeerStatus::kOk;
}

Task<PeerStatus> Participant::give_up(const TransactionId& finished) {
  TransactionId id = finished;
  storage::WriteBatch batch;
  for (const PreparedRecord& record : guests_[id].promised) {
    batch.erase(prepared_key(record.what.site, id));
  }
  // Lazily: found again after a crash, it is asked for and given up again.
  if (!batch.empty()) {
    aborted_.add();
    if (auto erased = seams_.cells.apply(batch); !erased) co_return PeerStatus::kFailed;
  }
  forget(id);
  co_return PeerStatus::kOk;
}

// ---- changes whose initiator is silent ----

Status Participant::recover(SiteId site) {
  const std::size_t before = guests_.size();
  KeyRange range = range_of(site, CellKind::kPrepared);
  auto at = seams_.cells.store().iterate(range.begin, range.end);
  for (; at->valid(); at->next()) {
    auto record = decode_prepared(site, at->value());
    if (!record) return fail(std::move(record.error()));
    Guest& guest = guests_[record->id];
    guest.owner = {record->id, 0};  // older than any other: these wait for nobody
    guest.prepared = true;
    for (const WantedLock& wanted : locks_of(*record))
      seams_.locks.take(guest.owner, wanted.key, wanted.mode);
    seams_.locks.prepare(record->id);
    guest.promised.push_back(std::move(*record));
  }
  count();
  if (guests_.size() > before) {
    log_info("site {}: {} changes over several servers were under way: asking for their outcome", site.value,
             guests_.size() - before);
    watch_soon();
  }
  return at->status();
}

void Participant::release(SiteId site) {
  std::vector<TransactionId> empty;
  for (auto& [id, guest] : guests_) {
    if (guest.finished_at) continue;
    std::erase_if(guest.promised, [&](const PreparedRecord& each) { return each.what.site == site; });
    if (guest.promised.empty()) empty.push_back(id);
  }
  for (const TransactionId& id : empty) forget(id);
}

void Participant::watch_soon() {
  if (watching_ || stopping_) return;
  watching_ = true;
  seams_.context.loop.post([this] { spawn(watch()); });
}

Task<void> Participant::watch() {
  while (!stopping_ && !guests_.empty()) {
    MonoTime now = seams_.context.loop.now();
    std::vector<TransactionId> silent;
    for (const auto& [id, guest] : guests_) {
      bool recovered = guest.heard == MonoTime{};
      if (!guest.finished_at && (recovered || now - guest.heard >= kQuiet)) silent.push_back(id);
    }
    for (const TransactionId& id : silent) co_await ask(id);
    co_await seams_.context.loop.sleep(kWatch);
  }
  watching_ = false;
}

Task<void> Participant::ask(TransactionId id) {
  auto result = co_await seams_.peers.call_owner<wire::OutcomeResult>(
      id.site, wire::DirectoryProcedure::kOutcome, wire::OutcomeArgs{name_of(id)});
  auto guest = guests_.find(id);
  if (guest == guests_.end() || guest->second.finished_at) co_return;
  if (!result || result->status != PeerStatus::kOk) {
    // Without a promise nothing is lost: a PREPARE that comes all the same is refused.
    if (!guest->second.prepared) co_await give_up(id);
    co_return;
  }
  if (result->outcome == wire::TransactionOutcome::kRunning) co_return;
  co_await end(id, result->outcome == wire::TransactionOutcome::kCommitted);
}

}  // namespace slice::dirserver
