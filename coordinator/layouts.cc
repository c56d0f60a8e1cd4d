#include "coordinator/layouts.h"

#include <algorithm>

#include "coordinator/placement.h"

namespace slice::coordinator {

using NfsStatus = nfs3::Status;
using wire::StripeRange;

namespace {

constexpr std::uint64_t kFewStripes = 1024;  // looked at one by one
constexpr std::size_t kMaxRemoved = 65536;   // files that are remembered as removed
// Stripes noted before they are missed, where they are written one after another: as many as it has been so
// far. Between two that are on one server there are others that are not.
constexpr std::uint64_t kLeastAhead = 16, kMostAhead = kFewStripes / 2, kGap = 16;

// Where the stripes of a piece are that has no record.
std::vector<std::uint32_t> sites_by_hash(const routing::RoutingTables& tables,
                                         const routing::FileHandle& handle, std::uint64_t piece) {
  std::vector<std::uint32_t> sites;
  for (std::uint64_t i = 0; i < wire::kStripesOfPiece; ++i) {
    const std::uint64_t stripe = piece * wire::kStripesOfPiece + i;
    sites.push_back(routing::site_of_stripe(tables, {}, handle, stripe).value);
  }
  return sites;
}

StripeRange within_piece(StripeRange range, std::uint64_t piece) {
  return {std::max(range.first, piece * wire::kStripesOfPiece),
          std::min(range.end, (piece + 1) * wire::kStripesOfPiece)};
}

}  // namespace

class Layouts::Use {
 public:
  Use(Layouts& layouts, const routing::FileHandle& handle) : layouts_(layouts), id_(handle.fileid) {
    auto& place = layouts_.files_[id_];
    if (place == nullptr) {
      place = std::make_unique<File>(layouts_.context_.loop);
      place->changed = layouts_.dropped_;
    }
    file_ = place.get();
    file_->handle = handle;
    ++file_->users;
  }
  ~Use() {
    --file_->users;
    layouts_.drop_if_idle(id_);
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  File& file() { return *file_; }

 private:
  Layouts& layouts_;
  FileId id_;
  File* file_;
};

Layouts::Layouts(service::ServiceContext& context, Intentions& intentions, Sessions& sessions,
                 BlockMaps& maps, Extents& extents, std::uint64_t first)
    : context_(context),
      intentions_(intentions),
      sessions_(sessions),
      maps_(maps),
      extents_(extents),
      version_(first),
      dropped_(version_),
      missing_gauge_(
          context.metrics.gauge("coordinator_copies_missing_something",
                                "copies of mirrored files that missed writes and are not whole again")),
      missed_(context.metrics.counter("coordinator_missed_total",
                                      "times that a copy of a mirrored file missed writes")),
      refused_(context.metrics.counter(
          "coordinator_missed_refused_total",
          "missed writes that could not be noted: no other copy is whole, or too many")),
      placed_(context.metrics.counter("coordinator_stripes_placed_total",
                                      "stripes of block-mapped files that got their place")) {
  orderers_.bound(version_);
}

std::vector<wire::Missing> Layouts::missing_of(FileId file) const {
  std::vector<wire::Missing> missing;
  if (auto found = files_.find(file); found != files_.end()) {
    for (const auto& [server, copy] : found->second->copies) {
      if (!lost(server)) missing.push_back(copy.missing);
    }
  }
  for (std::uint32_t server : lost_servers()) {
    auto since = lost_since_.find(server);
    missing.push_back(
        {.server = server,
         .stripes = {{0, wire::kAllStripes}},
         .since = {{{0, wire::kAllStripes}, since == lost_since_.end() ? wire::kNotYet : since->second}}});
  }
  return missing;
}

bool Layouts::lost(std::uint32_t server) const {
  const routing::RoutingTables& tables = *context_.tables.get();
  return tables.lost(server) && !tables.removed(server) && !sessions_.live(server);
}

std::vector<std::uint32_t> Layouts::lost_servers() const {
  std::vector<std::uint32_t> servers;
  if (!context_.tables.get()->some_are_left()) return servers;
  for (const wire::ServerEntry& each : context_.tables.get()->wire().servers) {
    if (lost(each.server)) servers.push_back(each.server);
  }
  return servers;
}

// Who is lost by now is so for all that is given out meanwhile; who is lost later waits for another recall.
Task<void> Layouts::recall(std::vector<std::uint32_t> sites) {
  const std::vector<std::uint32_t> now = lost_servers();
  co_await sessions_.recall({.version = next_version(), .sites = std::move(sites)});
  for (std::uint32_t server : now) lost_since_.try_emplace(server, next_version());
}

Result<wire::FileLayout> Layouts::of(const routing::FileHandle& handle, std::uint64_t stripe) const {
  wire::FileLayout layout{.version = version_, .changed = dropped_, .missing = missing_of(handle.fileid)};
  if (auto found = files_.find(handle.fileid); found != files_.end()) {
    layout.changed = found->second->changed;
    layout.moving = found->second->moving;
  }
  orderers_.tell(handle.fileid, layout);
  if (routing::has_layout(handle)) {
    auto piece = maps_.piece(handle.fileid, wire::piece_of(stripe));
    if (!piece) return fail(std::move(piece).error());
    layout.piece = std::move(*piece);
    layout.settled = settled(handle, layout.piece);
  }
  return layout;
}

// Without a record, stripes of a file that is not block-mapped are where the hash has them; where some sites
// are left, one of a piece is on one of those, as good as surely.
bool Layouts::settled(const routing::FileHandle& handle, const wire::MapPiece& piece) const {
  if (placing_.contains({handle.fileid, piece.number})) return false;
  return !piece.sites.empty() || (!routing::block_mapped(handle) && !context_.tables.get()->some_are_left());
}

// What is not settled is answered at once to who does not write by it: a write under way elsewhere, which a
// change may be waiting for, may need it.
Task<wire::LayoutResult> Layouts::give(routing::FileHandle handle, std::uint64_t stripe, bool place_it) {
  // By now nobody acts by a layout of before this start.
  if (!std::exchange(given_, true)) orderers_.bound(next_version());
  wire::LayoutResult result;
  decides_();
  auto layout = of(handle, stripe);
  if (layout && place_it && !layout->settled) {
    Use use(*this, handle);
    auto lock = co_await use.file().lock.lock();
    layout = of(handle, stripe);
    if (layout && !layout->settled) {
      result.status = co_await settle(use.file(), handle, wire::piece_of(stripe));
      layout = of(handle, stripe);
    }
  }
  if (layout) {
    result.layout = std::move(*layout);
  } else {
    result.status = nfs3::status_of(layout.error());
  }
  co_return result;
}

Task<NfsStatus> Layouts::settle(File& file, const routing::FileHandle& handle, std::uint64_t piece) {
  if (removed_.contains(handle.fileid)) co_return NfsStatus::kStale;
  placing_.insert({handle.fileid, piece});
  NfsStatus status = NfsStatus::kOk;
  if (auto now = maps_.piece(handle.fileid, piece); !now) {
    status = nfs3::status_of(now.error());
  } else if (now->sites.empty() && routing::block_mapped(handle)) {
    status = co_await place(file, handle, piece);
  } else {
    status = co_await put_refitted(file, handle, std::move(*now));
  }
  placing_.erase({handle.fileid, piece});
  co_return status;
}

Task<NfsStatus> Layouts::place(File& file, const routing::FileHandle& handle, std::uint64_t piece) {
  decides_();
  Placement placement(*context_.tables.get(), sessions_.rooms(), routing::copies_of(handle), context_.random);
  auto sites = placement.sites(wire::kStripesOfPiece);
  auto put = co_await maps_.put(handle.fileid, {.number = piece, .sites = std::move(sites)});
  co_await context_.crash.reach("map.placed");
  if (!put) co_return nfs3::status_of(put.error());
  placed_.add(wire::kStripesOfPiece);
  co_await change(file);
  co_return NfsStatus::kOk;
}

// Nobody writes by the piece from the first change on; so what is not there by then nobody has written, and a
// hole may be anywhere.
Task<NfsStatus> Layouts::put_refitted(File& file, const routing::FileHandle& handle, wire::MapPiece piece) {
  co_await change(file);
  auto extent = co_await extents_.of(
      handle, [&](std::uint32_t node) { return misses_everything(handle.fileid, node); });
  decides_();
  const routing::RoutingTables& tables = *context_.tables.get();
  const wire::MapPiece before = piece;
  if (piece.sites.empty()) piece.sites = sites_by_hash(tables, handle, piece.number);
  const Placement placement(tables, sessions_.rooms(), routing::copies_of(handle), context_.random);
  for (std::uint64_t i = 0; extent && i < wire::kStripesOfPiece; ++i) {
    const std::uint64_t stripe = piece.number * wire::kStripesOfPiece + i;
    const bool moves = file.moving && file.moving->stripe == stripe;
    std::uint32_t& site = piece.sites[i];
    if (moves || stripe << handle.stripe_shift < extent->end ||
        !tables.is_left(SiteId{site}, routing::copies_of(handle)))
      continue;
    site = placement.instead_of(SiteId{site}).value_or(site);
  }
  if (piece == before) co_return NfsStatus::kOk;
  auto put = co_await maps_.put(handle.fileid, std::move(piece));
  co_await context_.crash.reach("map.refitted");
  if (!put) co_return nfs3::status_of(put.error());
  co_await change(file);
  co_return NfsStatus::kOk;
}

Task<NfsStatus> Layouts::refit(routing::FileHandle handle, std::uint64_t piece) {
  Use use(*this, handle);
  auto lock = co_await use.file().lock.lock();
  if (use.file().unsure) co_return NfsStatus::kJukebox;
  co_return co_await settle(use.file(), handle, piece);
}

Task<void> Layouts::placed() {
  const auto some = placing_;
  for (const auto& [id, piece] : some) {
    auto found = files_.find(id);
    if (found == files_.end()) continue;
    Use use(*this, found->second->handle);
    auto lock = co_await use.file().lock.lock();
  }
}

Task<void> Layouts::change(File& file) {
  file.changed = next_version();
  co_await sessions_.recall({.file = file.handle.fileid, .version = file.changed});
}

Task<void> Layouts::change_orderers(File& file, std::vector<std::uint32_t> servers) {
  for (std::uint32_t server : servers) orderers_.expect(file.handle.fileid, server);
  co_await change(file);
  for (std::uint32_t server : servers) orderers_.note(file.handle.fileid, server, next_version());
}

const Layouts::Copy* Layouts::copy_of(FileId file, std::uint32_t server) const {
  auto found = files_.find(file);
  if (found == files_.end()) return nullptr;
  auto copy = found->second->copies.find(server);
  return copy == found->second->copies.end() ? nullptr : &copy->second;
}

bool Layouts::joins(FileId file, std::uint32_t server) const {
  const Copy* copy = copy_of(file, server);
  return copy != nullptr && copy->missing.joining;
}

bool Layouts::misses_everything(FileId file, std::uint32_t server) const {
  if (lost(server)) return true;
  const Copy* copy = copy_of(file, server);
  return copy != nullptr && copy->missing.stripes == std::vector<StripeRange>{{0, wire::kAllStripes}};
}

void Layouts::drop_if_idle(FileId file) {
  auto found = files_.find(file);
  const File& idle = *found->second;
  if (idle.users > 0 || !idle.copies.empty() || idle.moving) return;
  dropped_ = std::max(dropped_, found->second->changed);
  files_.erase(found);
}

// Whose server has no session is not counted on: where a dead one holds up another, that other would be taken
// for the one that misses something, and nobody who lives would have it all. A file's stripes are spread by a
// hash: many of them are on every site.
bool Layouts::another_is_whole(const File& file, const routing::FileHandle& handle, std::uint32_t server,
                               StripeRange stripes) const {
  const routing::RoutingTables& tables = *context_.tables.get();
  std::set<std::uint32_t> incomplete{server};
  const auto counted_on = [&](std::uint32_t each) { return !tables.lost(each) && sessions_.live(each); };
  for (const wire::ServerEntry* each : tables.servers(wire::Role::kStorage)) {
    if (each->server != server && !counted_on(each->server)) incomplete.insert(each->server);
  }
  for (const auto& [other, copy] : file.copies) {
    bool overlaps = std::any_of(
        copy.missing.stripes.begin(), copy.missing.stripes.end(),
        [&](const StripeRange& range) { return range.first < stripes.end && stripes.first < range.end; });
    if (overlaps) incomplete.insert(other);
  }
  if (incomplete.size() == 1 && routing::mirrored(handle)) return true;
  // Any servers may be the ones of a listed site.
  if (stripes.end - stripes.first > kFewStripes) return incomplete.size() < routing::copies_of(handle);
  Result<wire::FileLayout> layout = fail(Errc::kNotFound, "none yet");
  for (std::uint64_t stripe = stripes.first; stripe < stripes.end; ++stripe) {
    if (stripe == stripes.first || stripe % wire::kStripesOfPiece == 0) layout = of(handle, stripe);
    if (!layout) return false;
    auto whole = routing::copies_of_stripe(tables, *layout, handle, stripe).whole;
    std::erase_if(whole, [&](std::uint32_t each) { return each == server || !counted_on(each); });
    if (whole.empty()) return false;
  }
  return true;
}

Task<NfsStatus> Layouts::put(File& file, const routing::FileHandle& handle, wire::Missing missing) {
  std::uint64_t version = next_version();
  auto sequence = intentions_.begin({.operation = Operation::kMissing,
                                     .handle = context_.handles.mint(handle),
                                     .server = missing.server,
                                     .version = version,
                                     .stripes = missing.stripes});
  if (!sequence) co_return nfs3::status_of(sequence.error());
  co_await context_.crash.reach("missing.begun");
  if (auto durable = co_await intentions_.durable(*sequence); !durable) {
    intentions_.end(*sequence);
    co_return nfs3::status_of(durable.error());
  }
  co_await context_.crash.reach("missing.durable");
  auto [place, fresh] = file.copies.try_emplace(missing.server);
  if (!fresh) intentions_.end(place->second.sequence);
  missing_ += fresh ? 1 : 0;
  missing_gauge_.set(missing_);
  // What it missed before is ordered by whom it was.
  for (const StripeRange& range : routing::without(missing.stripes, place->second.missing.stripes)) {
    routing::note_missed_since(missing, range, wire::kNotYet);
  }
  const std::uint32_t server = missing.server;
  place->second = {std::move(missing), *sequence};
  co_await change(file);
  // Not sooner: another node may have been told any version of before, and acted by the old layout after
  // that.
  if (auto noted = file.copies.find(server); noted != file.copies.end()) {
    version = next_version();
    for (wire::MissedSince& each : noted->second.missing.since) {
      if (each.version == wire::kNotYet) each.version = version;
    }
  }
  co_await context_.crash.reach("missing.recalled");
  co_return NfsStatus::kOk;
}

// Whether the server misses nothing because these stripes are not there. One that they were to be moved to is
// not any more.
Task<bool> Layouts::no_copy_at(File& file, const routing::FileHandle& handle, std::uint32_t server,
                               StripeRange stripes) {
  const auto tables = context_.tables.get();
  if (stripes.end - stripes.first > 1) {
    if (file.moving &&
        routing::has(tables->copies_of(SiteId{file.moving->site}, routing::copies_of(handle)), server)) {
      file.moving.reset();
      co_await change(file);
    }
    co_return false;
  }
  auto layout = of(handle, stripes.first);
  if (!layout) co_return false;
  auto copies = routing::copies_of_stripe(*tables, *layout, handle, stripes.first);
  if (routing::has(copies.all, server)) co_return false;
  if (routing::has(copies.written, server)) {
    file.moving.reset();
    co_await change(file);
  }
  co_return true;
}

// Each note is made durable and recalls the layout, and the write waits for that. A copy that is away misses
// what comes next as well, so that a file that is written from its begin to its end needs few notes. To note
// too much costs no more than to copy that, too; but no stripe without another whole copy.
StripeRange Layouts::foreseen(const File& file, const routing::FileHandle& handle,
                              const wire::Missing& missing, StripeRange stripes) const {
  const std::uint64_t piece = wire::piece_of(stripes.first);
  // Where others of a map's pieces will be is not known.
  const bool knows = !routing::block_mapped(handle) || piece == wire::piece_of(stripes.end - 1);
  if (!knows || sessions_.live(missing.server)) return stripes;
  for (const StripeRange& range : missing.stripes) {
    if (stripes.first < range.first || stripes.first > range.end + kGap) continue;
    std::uint64_t ahead = std::clamp(range.end - range.first, kLeastAhead, kMostAhead);
    StripeRange wide{std::min(range.end, stripes.first),
                     std::max(stripes.end, std::min(stripes.first + ahead, wire::kAllStripes))};
    if (routing::block_mapped(handle)) wide = within_piece(wide, piece);
    if (another_is_whole(file, handle, missing.server, wide)) return wide;
  }
  return stripes;
}

Task<NfsStatus> Layouts::missed(routing::FileHandle handle, std::uint32_t server, StripeRange stripes) {
  Use use(*this, handle);
  File& file = use.file();
  auto lock = co_await file.lock.lock();
  if (file.unsure) co_return NfsStatus::kJukebox;
  if (context_.tables.get()->lost(server))
    co_return lost_since_.contains(server) ? NfsStatus::kOk : NfsStatus::kJukebox;
  if (co_await no_copy_at(file, handle, server, stripes)) co_return NfsStatus::kOk;
  wire::Missing missing{.server = server, .stripes = {}, .since = {}};
  if (auto found = file.copies.find(server); found != file.copies.end()) {
    missing = found->second.missing;
    bool known = std::any_of(missing.stripes.begin(), missing.stripes.end(), [&](const StripeRange& range) {
      return range.first <= stripes.first && stripes.end <= range.end;
    });
    if (known && !missing.joining) co_return NfsStatus::kOk;
  } else if (missing_ >= kMaxMissing) {
    refused_.add();
    co_return NfsStatus::kJukebox;
  }
  if (!another_is_whole(file, handle, server, stripes)) {
    refused_.add();
    co_return NfsStatus::kJukebox;
  }
  const StripeRange ahead = foreseen(file, handle, missing, stripes);
  std::vector<StripeRange> known = missing.stripes;
  routing::add(known, ahead);
  // Of more ranges than are kept apart, what lies between two is missed as well: not the last whole copy.
  for (const StripeRange& between : routing::without(routing::without(known, missing.stripes), {ahead})) {
    if (another_is_whole(file, handle, server, between)) continue;
    refused_.add();
    co_return NfsStatus::kJukebox;
  }
  missed_.add();
  missing.joining = false;
  missing.stripes = std::move(known);
  co_return co_await put(file, handle, std::move(missing));
}

Task<bool> Layouts::join(routing::FileHandle handle, std::uint32_t server, bool emptied) {
  Use use(*this, handle);
  File& file = use.file();
  auto lock = co_await file.lock.lock();
  auto found = file.copies.find(server);
  if (found == file.copies.end()) co_return false;
  if (found->second.missing.joining) co_return true;
  if (!emptied && misses_everything(handle.fileid, server)) co_return false;
  found->second.missing.joining = true;
  co_await change(file);
  co_await context_.crash.reach("missing.joining");
  co_return true;
}

Task<bool> Layouts::joined(routing::FileHandle handle, std::uint32_t server) {
  Use use(*this, handle);
  File& file = use.file();
  auto lock = co_await file.lock.lock();
  auto found = file.copies.find(server);
  if (found == file.copies.end() || !found->second.missing.joining) co_return false;
  erase(file, server);
  co_await change_orderers(file, {server});
  co_await context_.crash.reach("missing.whole");
  co_return true;
}

Task<void> Layouts::drop_copy(routing::FileHandle handle, std::uint32_t server) {
  Use use(*this, handle);
  auto lock = co_await use.file().lock.lock();
  if (!use.file().copies.contains(server)) co_return;
  erase(use.file(), server);
  co_await change(use.file());
}

void Layouts::erase(File& file, std::uint32_t server) {
  auto found = file.copies.find(server);
  intentions_.end(found->second.sequence);
  file.copies.erase(found);
  file.changed = next_version();
  missing_gauge_.set(--missing_);
}

// ---- moving a stripe ----

Task<bool> Layouts::begin_move(routing::FileHandle handle, std::uint64_t stripe, SiteId site) {
  Use use(*this, handle);
  File& file = use.file();
  auto lock = co_await file.lock.lock();
  if (file.moving || removed_.contains(handle.fileid)) co_return false;
  file.moving = wire::Moving{.stripe = stripe, .site = site.value};
  co_await change(file);
  co_await context_.crash.reach("move.joining");
  co_return true;
}

// Two changes, so that nodes which act by the layouts before and after one of them agree on who gets writes
// and who answers reads: first it is used at the new site, but still written at both; then the old one is
// out.
Task<NfsStatus> Layouts::end_move(routing::FileHandle handle, std::uint64_t stripe) {
  Use use(*this, handle);
  File& file = use.file();
  auto lock = co_await file.lock.lock();
  if (!file.moving || file.moving->stripe != stripe) co_return NfsStatus::kJukebox;
  decides_();
  if (context_.tables.get()->is_left(SiteId{file.moving->site}, routing::copies_of(handle)))
    co_return NfsStatus::kJukebox;
  if (!some_does_not_miss(file, handle, stripe)) co_return NfsStatus::kJukebox;
  auto piece = maps_.piece(handle.fileid, wire::piece_of(stripe));
  if (!piece || (piece->sites.empty() && routing::block_mapped(handle))) co_return NfsStatus::kJukebox;
  if (piece->sites.empty()) piece->sites = sites_by_hash(*context_.tables.get(), handle, piece->number);
  file.moving->switched = true;
  co_await change_orderers(
      file, context_.tables.get()->copies_of(SiteId{file.moving->site}, routing::copies_of(handle)));
  co_await context_.crash.reach("move.switched");
  piece->sites[stripe % wire::kStripesOfPiece] = file.moving->site;
  file.unsure = true;
  auto put = co_await maps_.put(handle.fileid, std::move(*piece));
  co_await context_.crash.reach("move.placed");
  // Where it is not known what is durable, both sites go on to get every write.
  if (!put) co_return NfsStatus::kIo;
  file.unsure = false;
  file.moving.reset();
  co_await change(file);
  co_await context_.crash.reach("move.moved");
  co_return NfsStatus::kOk;
}

// Of the servers of the site that it is moved to: notes of ranges are of stripes, too, that were not there.
bool Layouts::some_does_not_miss(const File& file, const routing::FileHandle& handle,
                                 std::uint64_t stripe) const {
  const auto servers =
      context_.tables.get()->copies_of(SiteId{file.moving->site}, routing::copies_of(handle));
  return std::ranges::any_of(servers, [&](std::uint32_t server) {
    const auto found = file.copies.find(server);
    return found == file.copies.end() || !routing::contains(found->second.missing.stripes, stripe);
  });
}

Task<void> Layouts::give_up_move(routing::FileHandle handle) {
  Use use(*this, handle);
  File& file = use.file();
  auto lock = co_await file.lock.lock();
  if (!file.moving || file.unsure) co_return;
  file.moving.reset();
  co_await change(file);
}

Task<slice::Status> Layouts::forget(FileId file) {
  note_removed(file);
  if (auto found = files_.find(file); found != files_.end()) {
    while (!found->second->copies.empty()) erase(*found->second, found->second->copies.begin()->first);
    drop_if_idle(file);
  }
  co_return co_await maps_.forget(file);
}

void Layouts::note_removed(FileId file) {
  if (!removed_.insert(file).second) return;
  removed_order_.push_back(file);
  if (removed_order_.size() <= kMaxRemoved) return;
  removed_.erase(removed_order_.front());
  removed_order_.pop_front();
}

void Layouts::resume(storage::LogSequence sequence, const Intention& intention) {
  version_ = std::max(version_, intention.version) + 1;
  dropped_ = version_;
  orderers_.bound(version_);
  auto handle = context_.handles.open(intention.handle);
  if (!handle) {
    intentions_.end(sequence);
    return;
  }
  Use use(*this, *handle);
  File& file = use.file();
  file.changed = version_;
  auto [place, fresh] = file.copies.try_emplace(intention.server);
  // Of two records the later one is all that it misses; the log is in order.
  if (!fresh) intentions_.end(place->second.sequence);
  missing_ += fresh ? 1 : 0;
  missing_gauge_.set(missing_);
  place->second = {{.server = intention.server, .stripes = intention.stripes}, sequence};
}

void Layouts::release(const Which& which) {
  for (auto at = files_.begin(); at != files_.end();) {
    File& file = *at->second;
    if (!which(at->first)) {
      ++at;
      continue;
    }
    missing_ -= file.copies.size();
    file.copies.clear();
    file.moving.reset();
    dropped_ = std::max(dropped_, file.changed);
    at = file.users > 0 ? std::next(at) : files_.erase(at);
  }
  missing_gauge_.set(missing_);
  orderers_.forget(which);
}

void Layouts::arrive(const Which& which, std::uint64_t version) {
  version_ = std::max(version_, version) + 1;
  dropped_ = version_;
  for (auto& [id, file] : files_) {
    if (which(id)) file->changed = version_;
  }
  // The one that they come from may have given layouts by which a lost server orders writes still.
  for (auto& [server, since] : lost_since_) since = next_version();
  orderers_.bound(next_version());
}

std::vector<FileId> Layouts::removed(const Which& which) const {
  std::vector<FileId> some;
  std::copy_if(removed_order_.begin(), removed_order_.end(), std::back_inserter(some), which);
  return some;
}

std::vector<std::pair<routing::FileHandle, std::uint32_t>> Layouts::owed() const {
  std::vector<std::pair<routing::FileHandle, std::uint32_t>> all;
  for (const auto& [id, file] : files_) {
    for (const auto& [server, copy] : file->copies) all.emplace_back(file->handle, server);
  }
  return all;
}

}  // namespace slice::coordinator
