#include "storagenode/sites.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/log.h"
#include "routing/copies.h"
#include "service/file_handles.h"
#include "service/internal_call.h"
#include "service/late_writes.h"
#include "service/ownership.h"
#include "wire/authority.h"

namespace slice::storagenode {

using NfsStatus = nfs3::Status;

namespace {

constexpr std::size_t kPage = wire::kMaxHandles;              // objects that are looked at together
constexpr std::size_t kRanges = 256;                          // of data, asked of an object at once
constexpr std::size_t kCopiedAtOnce = 8;                      // pieces
constexpr Duration kEpochPatience = std::chrono::seconds(3);  // of a client's write
constexpr Duration kCopyPatience = std::chrono::seconds(30);
constexpr Duration kEpochPause = std::chrono::milliseconds(20);

}  // namespace

// Goes through the files that a node has objects of and that have no layout.
class Sites::Walk {
 public:
  explicit Walk(Sites& sites) : sites_(sites) {}

  // Objects whose file nobody knows, of those that next() has passed so far.
  std::vector<ObjectName> take_nameless() { return std::exchange(nameless_, {}); }

  // The next ones; none: the end.
  Task<Result<std::vector<Held>>> next() {
    std::vector<Held> found;
    while (found.empty() && !end_) {
      auto listed = co_await sites_.store_.list(after_, kPage);
      if (!listed) co_return fail(std::move(listed).error());
      end_ = listed->end || listed->objects.empty();
      if (!listed->objects.empty()) after_ = listed->objects.back();
      std::vector<ObjectName> names;
      for (const ObjectName& name : listed->objects) {
        if (name.volume == sites_.context_.config.volume.id && name.kind == ObjectKind::kFile)
          names.push_back(name);
      }
      SLICE_CO_RETURN_IF_ERROR(co_await identify(std::move(names), found));
    }
    co_return found;
  }

 private:
  Task<slice::Status> identify(std::vector<ObjectName> names, std::vector<Held>& found) {
    std::vector<FileId> files;
    for (const ObjectName& name : names) files.push_back(name.fileid);
    auto known = co_await service::handles_of(sites_.context_, std::move(files));
    if (!known) co_return fail(std::move(known).error());
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto& file = (*known)[i];
      if (!file) {
        nameless_.push_back(names[i]);
      } else if (!routing::has_layout(file->handle)) {
        found.push_back({names[i], file->handle});
      }
    }
    co_return slice::Status{};
  }

  Sites& sites_;
  std::optional<ObjectName> after_;
  std::vector<ObjectName> nameless_;
  bool end_ = false;
};

Sites::Sites(service::ServiceContext& context, ObjectStore& store, service::AuthorityClient& authority,
             std::function<service::LateWrites&()> late_writes)
    : context_(context),
      store_(store),
      authority_(authority),
      late_writes_(std::move(late_writes)),
      gate_(context.loop),
      locks_(context.loop),
      placing_(context.loop),
      arriving_(context.loop),
      forwarded_(context.metrics.counter("moves_writes_forwarded_total",
                                         "clients' writes, and truncations and removals of small files, that "
                                         "a new owner did as well, before they were answered")),
      copied_bytes_(
          context.metrics.counter("moves_copied_bytes_total", "bytes that were copied to new owners")),
      placed_bytes_(context.metrics.counter("moves_placed_bytes_total",
                                            "bytes that old owners have copied and forwarded here")) {}

ObjectName Sites::object_of(const routing::FileHandle& handle) const {
  return {context_.config.volume.id, handle.fileid, ObjectKind::kFile};
}

std::uint32_t Sites::site_of(const routing::FileHandle& handle, std::uint64_t offset) const {
  return context_.tables.get()->storage_site(handle.fileid, offset, handle.stripe_shift).value;
}

bool Sites::settled(const routing::FileHandle& handle, std::uint64_t offset) const {
  if (leaving_.none()) return true;  // sites are held while they leave, and only then
  return leaving_.of(site_of(handle, offset)) == nullptr;
}

// ---- at the old owner: writes ----

Task<Result<ObjectStore::Written>> Sites::write(routing::FileHandle handle, std::uint64_t offset,
                                                ByteView data, ObjectStore::WriteOptions options) {
  const Leaving where = leaving_.none() ? nullptr : leaving_.of(site_of(handle, offset));
  if (where == nullptr) co_return co_await store_.write(object_of(handle), offset, data, options);
  StripeLocks::Of locks(locks_, handle.fileid);
  auto held = co_await locks.acquire(offset >> handle.stripe_shift);
  co_return co_await write_both(where, handle, offset, data, options);
}

Task<Result<ObjectStore::Written>> Sites::write_both(Leaving leaving, routing::FileHandle handle,
                                                     std::uint64_t offset, ByteView data,
                                                     ObjectStore::WriteOptions options) {
  const MonoTime deadline = context_.loop.now() + kEpochPatience;
  while (leaving->live()) {
    auto epoch = co_await store_.epoch(object_of(handle));
    if (!epoch) co_return fail(std::move(epoch.error()));
    ObjectStore::WriteOptions same = options;
    same.epoch = epoch->value_or(options.epoch);
    same.same_epoch = true;
    // The new owner first: what is here only, nobody misses there.
    Placed there =
        co_await place_there(leaving, rpc::Urgency::kWaitedFor, handle,
                             {.epoch = same.epoch, .offset = offset, .mtime = options.mtime, .data = data});
    co_await context_.crash.reach("site.forwarded");
    forwarded_.add();
    if (there == Placed::kRemoved) co_return fail(Errc::kStale, "the file was removed");
    if (there == Placed::kDone) {
      auto here = co_await store_.write(object_of(handle), offset, data, same);
      if (!here) {
        leaving->fail(fmt::format("a write was done there alone: {}", here.error().message));
        co_return here;
      }
      if (here->done) co_return here;
    }
    if (there == Placed::kFailed) break;
    // A truncation has come to one of both, and is on its way to the other.
    if (context_.loop.now() >= deadline) leaving->fail("the truncation of a file does not come there");
    co_await context_.loop.sleep(kEpochPause);
  }
  co_return co_await store_.write(object_of(handle), offset, data, options);
}

Task<Sites::Placed> Sites::place_there(Leaving leaving, rpc::Urgency urgency, routing::FileHandle handle,
                                       wire::PlaceArgs args) {
  const routing::HandleBytes bytes = context_.handles.mint(handle);
  args.handle = bytes;
  co_return co_await service::place_there(context_, numbers_, leaving, urgency, wire::ObjectProcedure::kPlace,
                                          args);
}

Task<slice::Status> Sites::join(Leaving leaving) {
  return leaving_.join(std::move(leaving), gate_);
}

void Sites::leave(const service::LeavingSites& leaving) {
  leaving_.leave(leaving);
}

// ---- at the old owner: copying ----

Task<Result<std::uint64_t>> Sites::count(std::vector<std::uint32_t> sites) {
  Walk walk(*this);
  std::uint64_t bytes = 0;
  while (true) {
    auto page = co_await walk.next();
    if (!page) co_return fail(std::move(page).error());
    if (page->empty()) co_return bytes;
    for (const Held& held : *page) {
      auto found = co_await pieces(held, sites);
      if (!found) co_return fail(std::move(found).error());
      for (const Piece& each : *found) bytes += each.length;
    }
  }
}

std::vector<wire::LateWrite> Sites::late_writes(const std::vector<std::uint32_t>& sites) {
  return late_writes_().of(sites);
}

Task<Result<std::vector<Sites::Piece>>> Sites::pieces(Held held, std::vector<std::uint32_t> sites) {
  const std::uint64_t unit = std::uint64_t{1} << held.handle.stripe_shift;
  const std::uint64_t most = std::min<std::uint64_t>(unit, nfs3::kMaxTransfer);
  std::vector<Piece> found;
  for (std::uint64_t from = 0;;) {
    auto ranges = co_await store_.data(held.name, from, kRanges);
    if (!ranges) co_return fail(std::move(ranges).error());
    for (const auto& range : *ranges) {
      const std::uint64_t end = range.offset + range.length;
      for (std::uint64_t at = range.offset; at < end;) {
        const std::uint64_t here = std::min({end - at, unit - at % unit, most});
        if (wire::has_site(sites, site_of(held.handle, at))) found.push_back({at, here});
        at += here;
      }
      from = end;
    }
    if (ranges->size() < kRanges) co_return found;
  }
}

Task<slice::Status> Sites::copy(Leaving leaving) {
  Walk walk(*this);
  while (true) {
    auto page = co_await walk.next();
    if (!page) co_return fail(std::move(page).error());
    if (page->empty()) co_return slice::Status{};
    for (const Held& held : *page) SLICE_CO_RETURN_IF_ERROR(co_await copy_object(leaving, held));
  }
}

Task<slice::Status> Sites::copy_object(Leaving leaving, Held held) {
  auto found = co_await pieces(held, leaving->move().sites);
  if (!found) co_return fail(std::move(found).error());
  for (std::size_t at = 0; at < found->size();) {
    std::vector<Task<slice::Status>> tasks;
    std::uint64_t bytes = 0;
    for (; at < found->size() && tasks.size() < kCopiedAtOnce; ++at) {
      bytes += (*found)[at].length;
      tasks.push_back(copy_piece(leaving, held.handle, (*found)[at]));
    }
    for (slice::Status& done : co_await all(std::move(tasks))) SLICE_CO_RETURN_IF_ERROR(done);
    copied_bytes_.add(bytes);
    co_await context_.crash.reach("site.copying");
    if (!co_await leaving->copied(bytes)) co_return fail(Errc::kUnavailable, "{}", leaving->trouble());
  }
  co_return slice::Status{};
}

// As it is now: it may have been written, cut or removed since it was found. A write need not wait until the
// piece is there: it has a greater number, and where it overtakes the piece the new owner refuses that one.
// Then the piece is read again, and no write comes between it and the new owner any more.
Task<slice::Status> Sites::copy_piece(Leaving leaving, routing::FileHandle handle, Piece piece) {
  const MonoTime deadline = context_.loop.now() + kCopyPatience;
  Buffer data(piece.length);
  StripeLocks::Of locks(locks_, handle.fileid);
  for (bool may_be_overtaken = true; leaving->live(); may_be_overtaken = false) {
    {
      std::optional<RangeLock::Held> held;
      held.emplace(co_await locks.acquire(piece.offset >> handle.stripe_shift));
      auto read = co_await store_.read(object_of(handle), piece.offset, data.span());
      if (!read) co_return fail(std::move(read).error());
      if (read->bytes == 0) co_return slice::Status{};
      const std::uint64_t number = numbers_.next(context_.loop.wall());
      if (may_be_overtaken) held.reset();
      Placed there = co_await place_there(leaving, rpc::Urgency::kBackground, handle,
                                          {.number = number,
                                           .epoch = read->epoch,
                                           .offset = piece.offset,
                                           .mtime = read->mtime,
                                           .data = data.view().first(read->bytes)});
      if (there == Placed::kDone || there == Placed::kRemoved) co_return slice::Status{};
    }
    if (context_.loop.now() >= deadline) leaving->fail("the truncation of a file does not come there");
    co_await context_.loop.sleep(kEpochPause);
  }
  co_return fail(Errc::kUnavailable, "{}", leaving->trouble());
}

// ---- giving back ----

Task<slice::Status> Sites::clear(std::vector<std::uint32_t> sites) {
  Walk walk(*this);
  while (true) {
    auto page = co_await walk.next();
    if (!page) co_return fail(std::move(page).error());
    // FileIDs are not used twice: what nobody knows was removed. This node may not have been told of that,
    // since the move came to nothing meanwhile.
    for (const ObjectName& name : walk.take_nameless())
      SLICE_CO_RETURN_IF_ERROR(co_await store_.remove(name));
    if (page->empty()) co_return slice::Status{};
    for (const Held& held : *page) SLICE_CO_RETURN_IF_ERROR(co_await clear_object(held, sites));
  }
}

Task<slice::Status> Sites::clear_object(Held held, std::vector<std::uint32_t> sites) {
  auto found = co_await pieces(held, std::move(sites));
  if (!found) co_return fail(std::move(found).error());
  for (const Piece& piece : *found) {
    // To the end of the block that the object ends in.
    const std::uint64_t end = (piece.offset + piece.length + kBlock - 1) / kBlock * kBlock;
    SLICE_CO_RETURN_IF_ERROR(co_await store_.discard(held.name, piece.offset, end - piece.offset));
  }
  auto epoch = co_await store_.epoch(held.name);
  if (!epoch) co_return fail(std::move(epoch).error());
  if (!*epoch) co_return slice::Status{};
  // An object without bytes remembers the file's epoch, for writes that come late to other sites of this
  // node; 0 need not be remembered.
  const bool has_others = !context_.ownership->sites().empty();
  if ((*epoch)->value == 0 || !has_others) SLICE_CO_RETURN_IF_ERROR(co_await store_.remove_empty(held.name));
  // What this node stores of the file is less.
  if (!found->empty()) authority_.note(held.handle, **epoch, 0, {});
  co_return slice::Status{};
}

// ---- at the new owner ----

void Sites::open(const wire::SiteMove& move, std::uint64_t attempt) {
  arriving_.open(move, attempt);
}

Task<void> Sites::close(wire::MoveId move) {
  return arriving_.close(move);
}

void Sites::learn(const std::vector<wire::LateWrite>& writes) {
  for (const wire::LateWrite& write : writes) late_writes_().learn(write);
}

// An object without bytes has remembered an epoch of long ago, when this node still was told of truncations
// of the file: there is nothing that a later one would have cut.
Task<Result<ObjectStore::Written>> Sites::put(routing::FileHandle handle, const wire::PlaceArgs& args) {
  const ObjectStore::WriteOptions options{.epoch = args.epoch, .mtime = args.mtime, .same_epoch = true};
  auto written = co_await store_.write(object_of(handle), args.offset, args.data, options);
  if (!written || written->done || written->epoch > args.epoch) co_return written;
  auto renewed = co_await store_.renew_empty(object_of(handle), args.epoch);
  if (!renewed) co_return fail(std::move(renewed).error());
  if (!*renewed) co_return written;
  co_return co_await store_.write(object_of(handle), args.offset, args.data, options);
}

Task<wire::PlaceResult> Sites::place(wire::PlaceArgs args) {
  wire::PlaceResult result{.verifier = context_.verifier.largest()};
  auto handle = context_.handles.open(args.handle);
  const std::uint64_t unit = handle ? std::uint64_t{1} << handle->stripe_shift : 1;
  if (!handle || routing::has_layout(*handle) || args.data.empty() || args.offset >= kMaxObjectSize ||
      args.data.size() > unit - args.offset % unit) {
    result.status = NfsStatus::kInval;
    co_return result;
  }
  const auto placing = arriving_.enter(args.move, args.attempt, site_of(*handle, args.offset));
  if (!placing) {
    result.status = NfsStatus::kStale;
    co_return result;
  }
  // One after the other: of two that are here at once the one with the greater number is to be done last.
  const service::StripeName stripe{handle->fileid, args.offset >> handle->stripe_shift};
  StripeLocks::Of locks(placing_, handle->fileid);
  const auto held = co_await locks.acquire(stripe.second);
  if (!numbers_.take(stripe, args.number)) {
    result.number = numbers_.greatest(stripe);
    result.status = NfsStatus::kNotSync;
    co_return result;
  }
  co_await context_.crash.reach("site.placing");
  auto written = co_await put(*handle, args);
  if (!written) {
    const bool removed = written.error().code == Errc::kStale;
    result.status = removed ? NfsStatus::kNoEnt : nfs3::status_of(written.error());
  } else if (!written->done) {
    log_debug("move {}: file {:#x} has epoch {} here, {} at its old owner", args.move, handle->fileid.value,
              written->epoch.value, args.epoch.value);
    result.status = NfsStatus::kNotSync;
  } else {
    placed_bytes_.add(args.data.size());
    // What this node stores of the file is more.
    authority_.note(*handle, written->epoch, 0, {});
  }
  result.verifier = context_.verifier.largest();
  co_await context_.crash.reach("site.placed");
  co_return result;
}

}  // namespace slice::storagenode
