#include "dirserver/ops/change.h"

#include <algorithm>
#include <map>

#include "dirserver/across/objects.h"

namespace slice::dirserver {

using NfsStatus = nfs3::Status;

Change::Change(Changes& in, NfsRequest& of, rpc::XdrWriter& to, Initiator& by)
    : names(in.seams_.names),
      request(of),
      out(to),
      initiator(by),
      transaction(names.cells),
      now(names.now()),
      changes_(in),
      seams_(in.seams_),
      start_(to.size()) {}

// ---- what it lacks ----

NfsStatus Change::need(Need lacking) {
  needs_.push_back(std::move(lacking));
  return NfsStatus::kJukebox;
}

NfsStatus Change::need_cell(const CellRef& ref, LockMode mode) {
  wire::LockItem item{.exclusive = mode == LockMode::kExclusive, .cell = name_of(ref), .name = {}};
  return need({.kind = Need::Kind::kLock, .item = std::move(item), .ref = {}, .key = {}});
}

NfsStatus Change::need_name(const NamePlace& place) {
  const CellRef& directory = place.directory;
  wire::LockItem item{.kind = wire::LockItem::Kind::kName,
                      .exclusive = true,
                      .cell = {place.site, directory.fileid, directory.generation},
                      .position = place.position.value,
                      .name = std::string(place.name)};
  return need({.kind = Need::Kind::kLock, .item = std::move(item), .ref = {}, .key = {}});
}

// ---- reading ----

AttributeCell* Change::keep_far(const AttributeCell& cell, bool exclusive) {
  far_.push_back(std::make_unique<Far>(Far{cell, exclusive}));
  return &far_.back()->cell;
}

Change::Far* Change::far_of(const AttributeCell& cell) {
  auto found = std::find_if(far_.begin(), far_.end(), [&](const auto& far) { return &far->cell == &cell; });
  return found == far_.end() ? nullptr : found->get();
}

bool Change::near(const AttributeCell& cell) const {
  return std::none_of(far_.begin(), far_.end(), [&](const auto& far) { return &far->cell == &cell; });
}

Answer<AttributeCell*> Change::load(const CellRef& ref, LockMode mode) {
  if (names.cells.owns(ref.site)) {
    auto cell = transaction.load(ref);
    if (!cell) return refuse(cell.error());
    return *cell;
  }
  // What directories under name hashing have to be known for does not take a lock of their home.
  // But where the lock is held, a lease would wait for it: RENAME d/x onto d.
  bool held = initiator.cell(ref) != nullptr;
  if (names.placement.hashed() && mode == LockMode::kShared && !held) return load_leased(ref);
  return load_far(ref, mode);
}

Answer<AttributeCell*> Change::load_far(const CellRef& ref, LockMode mode) {
  const Initiator::HeldCell* held = initiator.cell(ref);
  if (held == nullptr || (mode == LockMode::kExclusive && !held->exclusive)) {
    return refuse(need_cell(ref, mode));
  }
  for (const auto& far : far_) {
    if (far->cell.self.cell == ref && far->exclusive == held->exclusive) {
      return far->step == CellStep::How::kErase ? nullptr : &far->cell;
    }
  }
  if (!held->cell) return nullptr;
  return keep_far(*held->cell, held->exclusive);
}

Answer<AttributeCell*> Change::load_leased(const CellRef& ref) {
  for (const auto& far : far_) {
    if (far->cell.self.cell == ref) return &far->cell;
  }
  if (initiator.gone(ref)) return nullptr;
  const AttributeCell* leased = seams_.parts.leased(ref);
  if (leased == nullptr) {
    return refuse(need({.kind = Need::Kind::kLease, .item = {}, .ref = ref, .key = {}}));
  }
  return keep_far(*leased, false);
}

Answer<AttributeCell*> Change::object(const routing::FileHandle& handle) {
  auto cell = load(cell_of(handle), LockMode::kExclusive);
  if (cell && (*cell == nullptr || (*cell)->self.type != handle.type)) return refuse(NfsStatus::kStale);
  return cell;
}

Answer<AttributeCell*> Change::directory(const routing::FileHandle& handle) {
  auto cell = load(cell_of(handle), LockMode::kShared);
  if (!cell) return cell;
  if (*cell == nullptr || (*cell)->self.type != handle.type) return refuse(NfsStatus::kStale);
  if (!(*cell)->directory()) return refuse(NfsStatus::kNotDir);
  return cell;
}

Answer<routing::FileHandle> Change::open(nfs3::HandleView handle) const {
  auto opened = names.open(handle);
  if (!opened) return refuse(NfsStatus::kBadHandle);
  return *opened;
}

void Change::expect_name(const routing::FileHandle& directory, std::string_view name) {
  if (check_name(name) != NfsStatus::kOk || dot_or_dot_dot(name)) return;
  NamePlace place = names.placement.place(cell_of(directory), name);
  if (!names.cells.owns(place.site) && initiator.name(place) == nullptr) need_name(place);
}

Answer<NamedEntry> Change::look_up(AttributeCell& in, std::string_view name) {
  if (NfsStatus status = check_name(name); status != NfsStatus::kOk) return refuse(status);
  if (!may(request.who, in, service::kMayExecute)) return refuse(NfsStatus::kAcces);
  NamedEntry named{.directory = &in, .place = names.placement.place(in.self.cell, name)};
  if (!names.cells.owns(named.place.site)) {
    const Initiator::HeldName* held = initiator.name(named.place);
    if (held == nullptr) return refuse(need_name(named.place));
    named.target = held->target;
    return named;
  }
  auto entry = transaction.find(named.place);
  if (!entry) return refuse(entry.error());
  if (*entry != nullptr) named.target = (*entry)->target;
  return named;
}

Answer<AttributeCell*> Change::target(const NamedEntry& entry) {
  auto cell = load(entry.target->cell, LockMode::kExclusive);
  if (cell && *cell == nullptr) {
    // What was read before it is locked may not fit together: only the last try's word counts.
    corrupt_ = Error{Errc::kCorrupt,
                     fmt::format("a name in directory {:#x} points to file {:#x}, which "
                                 "has no attribute cell",
                                 entry.place.directory.fileid.value, entry.target->cell.fileid.value)};
    return refuse(nfs3::status_of(*corrupt_));
  }
  return cell;
}

Answer<AttributeCell*> Change::glance(const CellRef& ref) {
  if (names.cells.owns(ref.site)) return load(ref, LockMode::kShared);
  if (initiator.cell(ref) != nullptr) return load_far(ref, LockMode::kShared);
  const Initiator::HeldCell* read = initiator.read(ref);
  if (read == nullptr) return refuse(need({.kind = Need::Kind::kRead, .item = {}, .ref = ref, .key = {}}));
  if (!read->cell) return nullptr;
  return keep_far(*read->cell, false);
}

Answer<std::uint64_t> Change::names_near(const AttributeCell& directory) {
  const CellRef& ref = directory.self.cell;
  std::uint64_t entries = directory.entries;
  for (SiteId site : names.placement.name_sites(ref, SiteId{0})) {
    if (site == ref.site || !names.cells.owns(site)) continue;
    auto part = transaction.part(site, ref);
    if (!part) return refuse(part.error());
    entries += part->entries;
  }
  return entries;
}

Answer<bool> Change::empty(const AttributeCell& directory) {
  const CellRef& ref = directory.self.cell;
  if (!names.placement.hashed() || seams_.peers.others().empty()) {
    auto entries = names_near(directory);
    if (!entries) return refuse(entries.error());
    return *entries == 0;
  }
  // Before the parts: a server that has given its part's lock takes no other lease of the directory then.
  LockKey key{ref.fileid, {}};
  if (!initiator.holds(key, LockMode::kExclusive)) {
    return refuse(
        need({.kind = Need::Kind::kLocal, .item = {}, .ref = {}, .key = key, .mode = LockMode::kExclusive}));
  }
  auto elsewhere = initiator.names_elsewhere(ref.fileid, names.placement.sites());
  if (!elsewhere) {
    for (SiteId other : seams_.peers.others()) {
      wire::LockItem item{.kind = wire::LockItem::Kind::kPart,
                          .exclusive = true,
                          .cell = {other, ref.fileid, ref.generation},
                          .name = {}};
      need({.kind = Need::Kind::kLock, .item = std::move(item), .ref = {}, .key = {}});
    }
  }
  if (lacks_something()) return refuse(NfsStatus::kJukebox);
  auto entries = names_near(directory);
  if (!entries) return refuse(entries.error());
  return *entries + *elsewhere == 0;
}

NfsStatus Change::hold_name(const NamedEntry& entry) {
  LockKey key{entry.place.directory.fileid, entry.place.position};
  if (initiator.holds(key, LockMode::kExclusive)) return NfsStatus::kOk;
  return need({.kind = Need::Kind::kLocal, .item = {}, .ref = {}, .key = key, .mode = LockMode::kExclusive});
}

NfsStatus Change::hold_rename_lock() {
  if (initiator.holds_rename_lock() || seams_.peers.others().empty()) return NfsStatus::kOk;
  if (names.cells.owns(kRootSite)) {
    return need({.kind = Need::Kind::kLocal, .item = {}, .ref = {}, .key = kRenameLock});
  }
  wire::LockItem item{
      .kind = wire::LockItem::Kind::kRename, .exclusive = true, .cell = {kRootSite, {}, 0}, .name = {}};
  return need({.kind = Need::Kind::kLock, .item = std::move(item), .ref = {}, .key = {}});
}

// ---- changing ----

Answer<CellRef> Change::new_cell(const NamePlace& place, nfs3::FileType type) {
  const auto generation = static_cast<std::uint32_t>(seams_.context.random()) | 1;
  NewDirectories& directories = seams_.new_directories;
  SiteId site = names.placement.site_of_new(place, type);
  if (!names.cells.owns(site)) {
    site = changes_.site_of(request);  // a stray MKDIR: NfsService::place_of()
  } else if (type == nfs3::FileType::kDirectory && directories.used()) {
    if (const Initiator::HeldNew* held = initiator.held_new())
      return CellRef{held->site, held->fileid, generation};
    const auto elsewhere = initiator.refused_new() ? std::nullopt : directories.elsewhere(place);
    if (elsewhere) {
      wire::LockItem item{
          .kind = wire::LockItem::Kind::kNew, .exclusive = true, .cell = {*elsewhere, {}, 0}, .name = {}};
      return refuse(need({.kind = Need::Kind::kLock, .item = std::move(item), .ref = {}, .key = {}}));
    }
    site = directories.here(place);
  }
  auto fileid = transaction.allocate(site);
  if (!fileid) return refuse(fileid.error());
  return CellRef{site, *fileid, generation};
}

NfsStatus Change::check_quotas(std::span<const QuotaId> whose, const AttributeCell& cell) {
  if (!seams_.quotas.used()) return NfsStatus::kOk;
  const QuotaUsage more{used_by(cell), 1};
  return seams_.quotas.exceeded(request.who, whose, more) ? NfsStatus::kDquot : NfsStatus::kOk;
}

AttributeCell& Change::create(AttributeCell cell) {
  if (names.cells.owns(cell.self.cell.site)) return transaction.create(std::move(cell));
  far_.push_back(std::make_unique<Far>(Far{std::move(cell), true, CellStep::How::kCreate}));
  return far_.back()->cell;
}

NfsStatus Change::rewrite(AttributeCell& cell) {
  if (Far* far = far_of(cell)) {
    if (!far->exclusive) return need_cell(cell.self.cell, LockMode::kExclusive);
    if (!far->step) far->step = CellStep::How::kChange;
    return NfsStatus::kOk;
  }
  transaction.change(cell);
  const CellRef& ref = cell.self.cell;
  bool leased_out = cell.directory() && names.placement.hashed() && seams_.parts.given_out(ref.fileid);
  if (!leased_out || initiator.revoked(ref.fileid)) return NfsStatus::kOk;
  return need({.kind = Need::Kind::kRevoke, .item = {}, .ref = ref, .key = {}});
}

NfsStatus Change::change_name(NameStep::How how, const NamedEntry& entry, const Target& target) {
  const NamePlace& place = entry.place;
  if (!names.cells.owns(place.site)) {
    const Initiator::HeldName* held = initiator.name(place);
    if (how == NameStep::How::kLink && held != nullptr && held->full) return NfsStatus::kNoSpc;
    name_steps_.emplace_back(place.site,
                             NameStep{how, place.directory, place.position, std::string(place.name), target});
    return NfsStatus::kOk;
  }
  slice::Status done;
  switch (how) {
    case NameStep::How::kLink:
      done = transaction.link(place, target, now);
      break;
    case NameStep::How::kUnlink:
      done = transaction.unlink(place, now);
      break;
    case NameStep::How::kRetarget:
      done = transaction.retarget(place, target, now);
      break;
  }
  return done ? NfsStatus::kOk : refuse(done.error()).value();
}

NfsStatus Change::link(const NamedEntry& entry, const Target& target) {
  return change_name(NameStep::How::kLink, entry, target);
}

NfsStatus Change::unlink(const NamedEntry& entry) {
  return change_name(NameStep::How::kUnlink, entry, *entry.target);
}

NfsStatus Change::retarget(const NamedEntry& entry, const Target& target) {
  return change_name(NameStep::How::kRetarget, entry, target);
}

NfsStatus Change::drop_link(AttributeCell& cell) {
  if (!cell.directory() && cell.nlink > 1) {
    --cell.nlink;
    cell.ctime = later(now, cell.ctime);
    return rewrite(cell);
  }
  if (Far* far = far_of(cell)) {
    if (!far->exclusive) return need_cell(cell.self.cell, LockMode::kExclusive);
    far->step = CellStep::How::kErase;
    return NfsStatus::kOk;
  }
  erase_object(seams_.reclaimer, transaction, cell, freed_);
  return NfsStatus::kOk;
}

nfs3::WccData Change::wcc_before(const AttributeCell& cell) const {
  if (!near(cell)) return {};
  return {.before = wcc_of(cell), .after = names.attributes(cell)};
}

nfs3::WccData Change::wcc_after(const nfs3::WccData& before, const AttributeCell& cell) const {
  if (!near(cell)) return {};
  nfs3::WccData after{.before = {}, .after = names.attributes(cell)};
  // With other servers in it, time passes until the commit.
  if (initiator.id() == nullptr) after.before = before.before;
  return after;
}

// ---- the end of a try ----

std::optional<Transaction::Key> Change::blocked() const {
  if (names.held.empty()) return std::nullopt;
  for (const Transaction::Key& key : transaction.keys()) {
    LockMode mode = key.rewrites ? LockMode::kExclusive : LockMode::kShared;
    if (names.held.stops_change({key.file, key.position}, mode, initiator.id())) return key;
  }
  return std::nullopt;
}

std::vector<SiteSteps> Change::steps() const {
  std::map<SiteId, std::vector<Step>> by_site;
  for (const auto& far : far_) {
    if (far->step) by_site[far->cell.self.cell.site].emplace_back(CellStep{*far->step, far->cell});
  }
  for (const auto& [site, step] : name_steps_) by_site[site].emplace_back(step);
  std::vector<SiteSteps> steps;
  for (auto& [site, each] : by_site) steps.push_back({site, std::move(each)});
  return steps;
}

void Change::remember_reply() {
  seams_.duplicates.record(key_of(request.call), as_text(out.view()).substr(start_),
                           changes_.site_of(request), transaction);
}

Task<NfsAnswer> Change::commit() {
  bool changes_nothing = !transaction.dirty() && steps().empty();
  return changes_nothing ? answer(NfsStatus::kOk) : commit_reply();
}

Task<NfsAnswer> Change::commit_reply() {
  remember_reply();
  initiator.record(transaction);
  auto position = transaction.commit();
  Task<bool> told = seams_.parts.tell(transaction.touches());
  if (position) {
    co_await seams_.context.crash.reach("change.committed");
    if (auto durable = co_await names.cells.durable(*position); !durable) {
      initiator.in_doubt();
      position = tl::unexpected(std::move(durable.error()));
    }
  }
  if (!position) {
    out.rewind(start_);
    NfsStatus status = refuse(position.error()).value();
    // Nothing is said of attributes: they may be those that did not come to be.
    nfs3::encode_failure(out, request.procedure, status);
    co_return NfsAnswer::written(status);
  }
  co_await seams_.context.crash.reach("change.durable");
  for (ReclaimRecord& record : freed_) seams_.reclaimer.enqueue(std::move(record));
  Task<bool> others = initiator.decided();
  if (names.placement.hashed()) {
    // The directories' homes know before the client does, so that it sees its own changes of their times.
    co_await others;
    co_await told;
  } else {
    // Nobody reads what is promised before it is carried out: no need to wait for that.
    spawn([](Task<bool> task) -> Task<void> { co_await task; }(std::move(others)));
  }
  co_return NfsAnswer::written();
}

Task<slice::Status> Change::commit_first_step() {
  auto position = transaction.commit();
  if (!position) co_return tl::unexpected(std::move(position.error()));
  co_await seams_.context.crash.reach("change.first-committed");
  auto durable = co_await names.cells.durable(*position);
  co_await seams_.context.crash.reach("change.first-durable");
  co_return durable;
}

Task<NfsAnswer> Change::fail(NfsStatus status) {
  if (corrupt_) log_refusal(*corrupt_);
  if (out.size() == start_) {
    nfs3::encode_failure(out, request.procedure, status, request.attributes, request.wcc);
  }
  return answer(status);
}

Task<NfsAnswer> Change::answer(NfsStatus status) {
  return answer_shown(names, request, transaction.shown(), status);
}

// ---- Changes ----

namespace {

// Waits for what holds the key.
Task<slice::Status> stand_back(LockTable& held, Initiator& initiator, Transaction::Key key) {
  LockKey lock{key.file, key.position};
  LockMode mode = key.rewrites ? LockMode::kExclusive : LockMode::kShared;
  // Who holds nothing can wait for anybody.
  if (initiator.id() != nullptr) co_return co_await initiator.acquire(lock, mode);
  co_await held.changed(lock, std::chrono::seconds(1));
  co_return slice::Status{};
}

// True: it may be committed now.
Task<Result<bool>> prepare(Change& change) {
  auto steps = change.steps();
  if (steps.empty() && !change.initiator.holds_rename_lock()) co_return true;
  co_return co_await change.initiator.prepare(change.transaction.keys(), std::move(steps));
}

}  // namespace

SiteId Changes::site_of(const NfsRequest& request) const {
  if (request.gated_site) return SiteId{*request.gated_site};
  auto place = seams_.context.tables.get()->place_of(request.procedure, request.call.arguments);
  bool ours = place && place->site_class == wire::Role::kDirectory && seams_.peers.owns(place->site);
  return ours ? place->site : request.handle.directory_site;
}

Task<NfsAnswer> Changes::run(NfsRequest& request, rpc::XdrWriter& out, Plan plan, Finish finish) {
  std::size_t start = out.size();
  Initiator initiator({seams_.context, seams_.names.held, seams_.peers, seams_.parts, seams_.intentions},
                      site_of(request));
  for (;;) {
    out.rewind(start);
    request.attributes.reset();
    request.wcc = {};
    Change change(*this, request, out, initiator);
    NfsStatus status = plan(change);
    slice::Status again;
    if (change.lacks_something()) {
      again = co_await initiator.acquire(change.take_needs());
    } else if (auto key = change.blocked()) {
      again = co_await stand_back(seams_.names.held, initiator, *key);
    } else if (status != NfsStatus::kOk) {
      co_return co_await change.fail(status);
    } else if (auto ready = co_await prepare(change); !ready) {
      again = slice::fail(std::move(ready.error()));
    } else if (*ready) {
      co_return co_await (finish ? finish(change) : change.commit());
    }
    if (!again) {
      out.rewind(start);
      co_return again.error();
    }
  }
}

}  // namespace slice::dirserver
