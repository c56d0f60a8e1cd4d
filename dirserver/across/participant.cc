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
      locks_given_(seams.context.metrics.counter("directory_locks_total")),
      locks_refused_(seams.context.metrics.counter("directory_locks_refused_total")),
      prepared_(seams.context.metrics.counter("directory_changes_prepared_total")),
      committed_(seams.context.metrics.counter("directory_changes_carried_out_total")),
      aborted_(seams.context.metrics.counter("directory_changes_given_up_total")),
      under_way_(seams.context.metrics.counter("directory_changes_under_way")) {}

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
    Value value = value_of(item, shown);
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

Participant::Value Participant::value_of(const LockItem& item, storage::LogPosition& shown) {
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
  }
  return std::string();
}

// The directory's names on all of this server's sites; on its own site, it has no part.
Participant::Value Participant::part_value(const CellRef& directory) {
  std::uint64_t entries = 0;
  for (std::uint32_t site = 0; site < seams_.placement.sites(); ++site) {
    if (!seams_.peers.owns(SiteId{site})) continue;
    auto part = seams_.cells.part(SiteId{site}, directory);
    if (!part) return fail(std::move(part.error()));
    entries += part->entries;
  }
  return encode_number(entries);
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

Task<PeerStatus> Participant::prepare(const wire::PrepareArgs& args) {
  TransactionId id = id_of(args.id);
  auto guest = guests_.find(id);
  if (guest == guests_.end() || over(id)) co_return PeerStatus::kRefused;
  guest->second.heard = seams_.context.loop.now();
  auto records = accept(args);
  if (!records) co_return PeerStatus::kRefused;
  co_await seams_.context.crash.reach("participant.prepare");
  storage::WriteBatch batch;
  for (const PreparedRecord& record : *records) batch.put(prepared_key(record.what.site, id), encode(record));
  auto position = seams_.cells.store().apply(batch);
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
  if (args.commit && guest->second.prepared) co_return co_await carry_out(id);
  co_return co_await give_up(id);
}

Task<PeerStatus> Participant::carry_out(const TransactionId& finished) {
  TransactionId id = finished;
  co_await seams_.context.crash.reach("participant.finish");
  Guest& guest = guests_[id];
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
    if (log_.allow()) log_error("a change that was promised fails: {}", position.error().message);
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
    if (auto erased = seams_.cells.store().apply(batch); !erased) co_return PeerStatus::kFailed;
  }
  forget(id);
  co_return PeerStatus::kOk;
}

// ---- changes whose initiator is silent ----

Status Participant::recover() {
  for (std::uint32_t site = 0; site < seams_.placement.sites(); ++site) {
    KeyRange range = range_of(SiteId{site}, CellKind::kPrepared);
    auto at = seams_.cells.store().iterate(range.begin, range.end);
    for (; at->valid(); at->next()) {
      auto record = decode_prepared(SiteId{site}, at->value());
      if (!record) return fail(std::move(record.error()));
      Guest& guest = guests_[record->id];
      guest.owner = {record->id, 0};  // older than any other: these wait for nobody
      guest.prepared = true;
      for (const WantedLock& wanted : locks_of(*record)) {
        if (!seams_.locks.try_acquire(guest.owner, wanted.key, wanted.mode)) {
          return fail(Errc::kCorrupt, "two prepared changes of one cell on site {}", site);
        }
      }
      seams_.locks.prepare(record->id);
      guest.promised.push_back(std::move(*record));
    }
    SLICE_RETURN_IF_ERROR(at->status());
  }
  count();
  if (!guests_.empty()) {
    log_info("{} changes over several servers were under way: asking for their outcome", guests_.size());
    watch_soon();
  }
  return {};
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
  auto result = co_await seams_.peers.call<wire::OutcomeResult>(id.site, wire::DirectoryProcedure::kOutcome,
                                                                wire::OutcomeArgs{name_of(id)});
  auto guest = guests_.find(id);
  if (guest == guests_.end() || guest->second.finished_at) co_return;
  if (!result || result->status != PeerStatus::kOk) {
    // Without a promise nothing is lost: a PREPARE that comes all the same is refused.
    if (!guest->second.prepared) co_await give_up(id);
    co_return;
  }
  if (result->outcome == wire::TransactionOutcome::kRunning) co_return;
  co_await finish({name_of(id), result->outcome == wire::TransactionOutcome::kCommitted});
}

}  // namespace slice::dirserver
