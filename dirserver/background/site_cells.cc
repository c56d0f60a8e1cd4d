#include "dirserver/background/site_cells.h"

#include <algorithm>
#include <utility>

#include "dirserver/cells/steps.h"
#include "service/internal_call.h"

namespace slice::dirserver {
namespace {

using service::LeavingSites;
using wire::PeerStatus;

constexpr std::size_t kBatchBytes = 256 << 10;  // of keys and values in one call, about
constexpr std::size_t kClearedAtOnce = 256;     // keys, before others have their turn
constexpr Duration kCallTimeout = std::chrono::seconds(10);
constexpr std::size_t kLittle = 256;  // changed keys that the switch may wait for
constexpr int kRounds = 10;           // after which the switch sends what is left, however much that is

// A record that a start would have to go on with, and how that reads it. kCorrupt. Those of answered calls
// the duplicate-request cache reads.
struct RecordKind {
  CellKind kind;
  Status (*check)(SiteId site, std::string_view value);
};
template <auto decode>
Status decodes(SiteId /*site*/, std::string_view value) {
  auto decoded = decode(value);
  return decoded ? Status{} : fail(decoded.error());
}
Status promise_decodes(SiteId site, std::string_view value) {
  auto decoded = decode_prepared(site, value);
  return decoded ? Status{} : fail(decoded.error());
}
constexpr RecordKind kRecords[] = {{CellKind::kTruncation, decodes<decode_truncation>},
                                   {CellKind::kCut, decodes<decode_cut>},
                                   {CellKind::kClientLocks, decodes<decode_client_locks>},
                                   {CellKind::kReclaim, decodes<decode_reclaim>},
                                   {CellKind::kOwedTouch, decodes<decode_owed_touch>},
                                   {CellKind::kIntention, decodes<decode_intention>},
                                   {CellKind::kPrepared, promise_decodes},
                                   {CellKind::kSequence, decodes<decode_number>}};

}  // namespace

// What goes in one message.
struct SiteCells::Batch {
  std::vector<wire::CellChange> changes;
  std::size_t bytes = 0;

  void add(wire::CellChange change) {
    bytes += change.key.size() + (change.value ? change.value->size() : 0);
    changes.push_back(std::move(change));
  }
  bool full() const { return bytes >= kBatchBytes || changes.size() >= wire::kMaxCellChanges; }
};

SiteCells::SiteCells(service::ServiceContext& context, CellStore& cells, DuplicateCache& duplicates)
    : context_(context),
      cells_(cells),
      duplicates_(duplicates),
      gate_(context.loop, service::SiteGate::Held::kAll),
      copied_(context.metrics.counter("moves_cells_copied_total",
                                      "cells and records of directory sites that were copied to new owners")),
      copied_again_(context.metrics.counter(
          "moves_cells_copied_again_total",
          "cells and records copied again since they had changed while their site moved")),
      taken_(context.metrics.counter("moves_cells_taken_total",
                                     "cells and records that old owners have sent here")) {}

SiteCells::~SiteCells() {
  cells_.watch(nullptr);
}

// ---- both ----

Task<Status> SiteCells::clear(std::vector<std::uint32_t> sites) {
  for (std::uint32_t number : sites) duplicates_.expect_no_more(SiteId{number});
  storage::LogPosition last;
  for (std::uint32_t number : sites) {
    KeyRange range = range_of(SiteId{number});
    for (bool more = true; more;) {
      storage::WriteBatch batch;
      auto at = cells_.store().iterate(range.begin, range.end);
      for (; at->valid() && batch.changes().size() < kClearedAtOnce; at->next())
        batch.erase(std::string(at->key()));
      SLICE_CO_RETURN_IF_ERROR(at->status());
      more = !batch.empty();
      if (!more) break;
      range.begin = batch.changes().back().key;
      auto position = cells_.store().apply(batch);
      if (!position) co_return fail(std::move(position.error()));
      last = *position;
      co_await context_.loop.sleep({});
    }
  }
  // Last, since it looks at everything that is remembered, at once: at the begin the requests that were held
  // for the switch are being passed on.
  cells_.forget(sites);
  co_return co_await cells_.durable(last);
}

// ---- at the new owner ----

void SiteCells::open(const wire::SiteMove& move, std::uint64_t attempt) {
  std::erase_if(arriving_,
                [&](const auto& each) { return cells_.stays().here(SiteId{each.second.sites.front()}); });
  arriving_[move.id] = {.attempt = attempt, .sites = move.sites, .position = {}, .unreadable = {}};
  for (std::uint32_t site : move.sites) duplicates_.expect(SiteId{site});
}

Task<void> SiteCells::close(wire::MoveId move) {
  // What is taken is taken at once.
  if (auto found = arriving_.find(move); found != arriving_.end()) found->second.attempt = 0;
  co_return;
}

wire::PeerResult SiteCells::take(const wire::CellsArgs& args) {
  auto found = arriving_.find(args.move);
  if (found == arriving_.end() || found->second.attempt != args.attempt) return {PeerStatus::kRefused};
  Arriving& arriving = found->second;
  if (args.number <= arriving.taken) return {};
  if (args.number != arriving.taken + 1) return {PeerStatus::kRefused};
  storage::WriteBatch batch;
  for (const wire::CellChange& change : args.changes) {
    if (!wire::has_site(arriving.sites, site_of_key(change.key).value)) return {PeerStatus::kRefused};
    if (change.value) {
      batch.put(change.key, *change.value);
    } else {
      batch.erase(change.key);
    }
  }
  auto position = cells_.store().apply(batch);
  if (!position) return {PeerStatus::kFailed};
  arriving.position = *position;
  arriving.taken = args.number;
  for (const wire::CellChange& change : args.changes) look_at(arriving, change);
  taken_.add(args.changes.size());
  return {};
}

// All that is here of the sites comes by take(): so it is looked at while clients are served elsewhere, and
// not when they wait for the end of the move, however many records there are.
void SiteCells::look_at(Arriving& arriving, const wire::CellChange& change) {
  Status readable;
  const CellKind kind = kind_of_key(change.key);
  if (kind == CellKind::kDuplicate) {
    readable = duplicates_.arrive(change.key, change.value);
  } else if (change.value) {
    for (const RecordKind& record : kRecords) {
      if (record.kind == kind) readable = record.check(site_of_key(change.key), *change.value);
    }
  }
  if (!readable) {
    arriving.unreadable.insert_or_assign(change.key, readable.error());
  } else if (!arriving.unreadable.empty()) {
    arriving.unreadable.erase(change.key);
  }
}

Task<Status> SiteCells::sync() {
  storage::LogPosition last;
  for (const auto& [move, arriving] : arriving_) {
    if (!arriving.unreadable.empty()) co_return fail(arriving.unreadable.begin()->second);
    last = std::max(last, arriving.position);
  }
  co_return co_await cells_.durable(last);
}

// ---- at the old owner ----

// Changes that are under way are noted when they are applied.
Task<Status> SiteCells::join(std::shared_ptr<LeavingSites> leaving) {
  leaving_.push_back(std::make_shared<Leaving>(Leaving{.sites = std::move(leaving), .changed = {}}));
  cells_.watch([this](const storage::WriteBatch& batch) { note(batch); });
  co_return Status{};
}

void SiteCells::leave(const LeavingSites& leaving) {
  std::erase_if(leaving_, [&](const Try& each) { return each->sites.get() == &leaving; });
  if (leaving_.empty()) cells_.watch(nullptr);
  for (std::uint32_t site : leaving.move().sites) cells_.stays().thaw(SiteId{site});
}

void SiteCells::note(const storage::WriteBatch& batch) {
  for (const auto& change : batch.changes()) {
    const std::uint32_t site = site_of_key(change.key).value;
    for (const Try& each : leaving_) {
      if (each->sites->has(site)) each->changed.insert(change.key);
    }
  }
}

SiteCells::Try SiteCells::try_of(const LeavingSites& sites) const {
  auto found = std::find_if(leaving_.begin(), leaving_.end(),
                            [&](const Try& each) { return each->sites.get() == &sites; });
  return found == leaving_.end() ? nullptr : *found;
}

Task<Result<std::uint64_t>> SiteCells::count(std::vector<std::uint32_t> sites) {
  std::uint64_t bytes = 0;
  for (std::uint32_t site : sites) {
    KeyRange range = range_of(SiteId{site});
    bytes += cells_.store().bytes_between(range.begin, range.end);
  }
  co_return bytes;
}

Task<Status> SiteCells::copy(std::shared_ptr<LeavingSites> leaving) {
  const Try going = try_of(*leaving);
  if (going == nullptr) co_return fail(Errc::kUnavailable, "the sites do not leave");
  for (std::uint32_t site : leaving->move().sites)
    SLICE_CO_RETURN_IF_ERROR(co_await copy_site(going, SiteId{site}));
  for (int round = 0; round < kRounds && going->changed.size() > kLittle; ++round)
    SLICE_CO_RETURN_IF_ERROR(co_await send_changed(going));
  co_return Status{};
}

Task<Status> SiteCells::copy_site(Try leaving, SiteId site) {
  KeyRange range = range_of(site);
  auto at = cells_.store().iterate(range.begin, range.end);
  while (at->valid()) {
    Batch batch;
    for (; at->valid() && !batch.full(); at->next())
      batch.add({std::string(at->key()), std::string(at->value())});
    copied_.add(batch.changes.size());
    const std::size_t bytes = batch.bytes;
    SLICE_CO_RETURN_IF_ERROR(co_await send(leaving, batch));
    if (!co_await leaving->sites->copied(bytes))
      co_return fail(Errc::kUnavailable, "{}", leaving->sites->trouble());
  }
  co_return at->status();
}

Task<Status> SiteCells::send_changed(Try leaving) {
  const std::set<std::string> changed = std::exchange(leaving->changed, {});
  copied_again_.add(changed.size());
  Batch batch;
  for (const std::string& key : changed) {
    auto value = cells_.store().get(key);
    if (!value) co_return fail(std::move(value.error()));
    batch.add({key, std::move(*value)});
    if (batch.full()) SLICE_CO_RETURN_IF_ERROR(co_await send(leaving, batch));
  }
  co_return co_await send(leaving, batch);
}

Task<Status> SiteCells::send_answers(Try leaving) {
  Batch batch;
  for (auto& [key, value] : duplicates_.unrecorded(leaving->sites->move().sites)) {
    batch.add({std::move(key), std::move(value)});
    if (batch.full()) SLICE_CO_RETURN_IF_ERROR(co_await send(leaving, batch));
  }
  co_return co_await send(leaving, batch);
}

Task<Status> SiteCells::send(Try leaving, Batch& batch) {
  std::vector<wire::CellChange> changes = std::exchange(batch, {}).changes;
  if (changes.empty()) co_return Status{};
  const wire::SiteMove& move = leaving->sites->move();
  if (!leaving->sites->live()) co_return fail(Errc::kUnavailable, "{}", leaving->sites->trouble());
  const auto tables = context_.tables.get();
  const wire::ServerEntry* to = tables->server(move.to);
  if (to == nullptr) co_return fail(Errc::kNotFound, "server {} is no member", move.to);
  co_await context_.crash.reach("site.cells-sending");
  auto result = co_await service::internal_call<wire::PeerResult>(
      context_.channel, to->endpoint, wire::kDirectoryProgram, wire::DirectoryProcedure::kCells,
      wire::CellsArgs{.move = move.id,
                      .attempt = leaving->sites->attempt(),
                      .number = ++leaving->sent,
                      .changes = std::move(changes)},
      kCallTimeout);
  if (!result) co_return fail(std::move(result.error()));
  if (result->status != PeerStatus::kOk) {
    co_return fail(Errc::kUnavailable, "{} does not take cells: {}", to->name,
                   result->status == PeerStatus::kRefused ? "the attempt is over there" : "it cannot write");
  }
  co_return Status{};
}

Task<Status> SiteCells::copy_rest(std::shared_ptr<LeavingSites> leaving) {
  const Try going = try_of(*leaving);
  if (going == nullptr) co_return fail(Errc::kUnavailable, "the sites do not leave");
  // Most of it first: others than clients change cells as well, and wait while the sites are frozen.
  SLICE_CO_RETURN_IF_ERROR(co_await send_changed(going));
  for (std::uint32_t site : leaving->move().sites) cells_.stays().freeze(SiteId{site});
  co_await context_.crash.reach("site.frozen");
  SLICE_CO_RETURN_IF_ERROR(co_await send_changed(going));
  co_return co_await send_answers(going);
}

}  // namespace slice::dirserver
