#include "smallfile/sites.h"

#include <algorithm>
#include <utility>

#include "common/log.h"
#include "service/late_writes.h"

namespace slice::smallfile {

using NfsStatus = nfs3::Status;

namespace {

constexpr std::size_t kPage = 1024;                      // files that are looked for at once
constexpr std::size_t kCopiedAtOnce = 16;                // files
constexpr Duration kPatience = std::chrono::seconds(3);  // with a new owner that says "again"
constexpr Duration kPause = std::chrono::milliseconds(20);

bool is_stale(const slice::Status& status) {
  return !status && status.error().code == Errc::kStale;
}

}  // namespace

Sites::Sites(service::ServiceContext& context, Store& store, service::AuthorityClient& authority,
             service::LateWrites& late_writes, service::SiteGate& gate)
    : context_(context),
      store_(store),
      authority_(authority),
      late_writes_(late_writes),
      gate_(gate),
      locks_(context.loop),
      arriving_(context.loop),
      forwarded_(context.metrics.counter("moves_writes_forwarded_total",
                                         "clients' writes, and truncations and removals of small files, that "
                                         "a new owner did as well, before they were answered")),
      copied_files_(
          context.metrics.counter("moves_copied_files_total", "small files that were copied to new owners")),
      copied_bytes_(
          context.metrics.counter("moves_copied_bytes_total", "bytes that were copied to new owners")),
      placed_bytes_(context.metrics.counter("moves_placed_bytes_total",
                                            "bytes that old owners have copied and forwarded here")) {}

std::uint32_t Sites::site_of(FileId file) const {
  return context_.tables.get()->small_file_site(file).value;
}

bool Sites::owns(FileId file) const {
  return context_.tables.get()->owns(context_.self.index, wire::Role::kSmallFile, SiteId{site_of(file)});
}

// ---- at the old owner: changes ----

// Here first, which says of which epoch and time it is. What is here only then is so until the attempt fails.
Task<Result<Store::Written>> Sites::apply(FileId file, Store::Write write) {
  const Leaving where = leaving(file);
  if (where == nullptr) co_return co_await store_.apply(file, write);
  auto held = co_await locks_.lock(file);
  auto written = co_await store_.apply(file, write);
  if (written) {
    (void)co_await forward(where, {.file = file,
                                   .what = What::kBytes,
                                   .epoch = written->seen.epoch,
                                   .offset = write.offset,
                                   .mtime = written->seen.mtime,
                                   .data = write.data});
  }
  co_return written;
}

Task<Result<bool>> Sites::truncate(FileId file, std::uint64_t size, Epoch epoch) {
  return change({.file = file, .what = What::kCut, .epoch = epoch, .offset = size, .mtime = {}, .data = {}});
}

Task<Result<bool>> Sites::remove(FileId file) {
  return change({.file = file, .what = What::kRemoved, .epoch = {}, .mtime = {}, .data = {}});
}

Task<Result<bool>> Sites::change(wire::PlaceFileArgs args) {
  const Leaving where = leaving(args.file);
  std::optional<service::FileLocks::Held> held;
  if (where != nullptr) {
    held.emplace(co_await locks_.lock(args.file));
    // No switch waits for a change, so the site may be given away by now, and what was here be gone.
    if (!owns(args.file)) co_return false;
  }
  SLICE_CO_RETURN_IF_ERROR(co_await put(args));
  co_return where == nullptr || co_await forward(where, args);
}

Task<bool> Sites::forward(Leaving leaving, wire::PlaceFileArgs args) {
  if (!leaving->live()) co_return false;
  forwarded_.add();
  const Placed there = co_await place_there(leaving, rpc::Urgency::kWaitedFor, args);
  co_await context_.crash.reach("site.forwarded");
  co_return there == Placed::kDone || there == Placed::kRemoved;
}

Task<Sites::Placed> Sites::place_there(Leaving leaving, rpc::Urgency urgency, wire::PlaceFileArgs args) {
  const MonoTime deadline = context_.loop.now() + kPatience;
  while (leaving->live()) {
    const Placed there = co_await service::place_there(context_, numbers_, leaving, urgency,
                                                       wire::ObjectProcedure::kPlaceFile, args);
    if (there != Placed::kAgain) co_return there;
    if (context_.loop.now() >= deadline) leaving->fail("the new owner has newer writes of a file");
    co_await context_.loop.sleep(kPause);
  }
  co_return Placed::kFailed;
}

// ---- at the old owner: copying ----

std::vector<wire::LateWrite> Sites::late_writes(const std::vector<std::uint32_t>& sites) {
  return late_writes_.of(sites);
}

Task<Result<std::uint64_t>> Sites::count(std::vector<std::uint32_t> sites) {
  std::uint64_t bytes = 0;
  for (FileId file : store_.without_record(sites)) bytes += store_.stored(file).value_or(0);
  for (std::uint32_t site : sites) {
    for (FileId from{};;) {
      auto page = store_.with_record(SiteId{site}, from, kPage);
      if (!page) co_return fail(std::move(page).error());
      bytes += page->bytes;
      if (page->files.size() < kPage) break;
      from = FileId{page->files.back().value + 1};
      co_await context_.loop.sleep(Duration(0));  // requests have their turn
    }
  }
  co_return bytes;
}

// Files that come to be from now on are the new owner's as well from their first byte on.
Task<slice::Status> Sites::copy(Leaving leaving) {
  const std::vector<FileId> first = store_.without_record(leaving->move().sites);
  SLICE_CO_RETURN_IF_ERROR(co_await copy_files(leaving, first));
  for (std::uint32_t site : leaving->move().sites) {
    for (FileId from{};;) {
      auto page = store_.with_record(SiteId{site}, from, kPage);
      if (!page) co_return fail(std::move(page).error());
      const bool end = page->files.size() < kPage;
      if (!end) from = FileId{page->files.back().value + 1};
      std::erase_if(page->files,
                    [&](FileId file) { return std::binary_search(first.begin(), first.end(), file); });
      SLICE_CO_RETURN_IF_ERROR(co_await copy_files(leaving, std::move(page->files)));
      if (end) break;
    }
  }
  co_return slice::Status{};
}

Task<slice::Status> Sites::copy_files(Leaving leaving, std::vector<FileId> files) {
  for (std::size_t at = 0; at < files.size();) {
    std::vector<Task<Result<std::uint64_t>>> tasks;
    for (; at < files.size() && tasks.size() < kCopiedAtOnce; ++at)
      tasks.push_back(copy_file(leaving, files[at]));
    copied_files_.add(tasks.size());
    std::uint64_t bytes = 0;
    for (Result<std::uint64_t>& copied : co_await all(std::move(tasks))) {
      if (!copied) co_return fail(std::move(copied).error());
      bytes += *copied;
    }
    copied_bytes_.add(bytes);
    co_await context_.crash.reach("site.copying");
    if (!co_await leaving->copied(bytes)) co_return fail(Errc::kUnavailable, "{}", leaving->trouble());
  }
  co_return slice::Status{};
}

// As it is now: it may have been written, cut or removed since it was found.
Task<Result<std::uint64_t>> Sites::copy_file(Leaving leaving, FileId file) {
  auto held = co_await locks_.lock(file);
  auto image = co_await store_.image(file);
  if (!image && image.error().code == Errc::kStale) co_return 0;
  if (!image) co_return fail(std::move(image).error());
  const Store::Seen& seen = image->seen;
  std::uint64_t bytes = 0, end = 0;
  auto send = [&](std::uint64_t offset, ByteView data) {
    return place_there(leaving, rpc::Urgency::kBackground,
                       {.file = file,
                        .what = What::kBytes,
                        .epoch = seen.epoch,
                        .offset = offset,
                        .mtime = seen.mtime,
                        .data = data});
  };
  for (const Store::Run& run : image->runs) {
    if (co_await send(run.offset, run.data.view()) == Placed::kFailed)
      co_return fail(Errc::kUnavailable, "{}", leaving->trouble());
    bytes += run.data.size();
    end = run.offset + run.data.size();
  }
  // A hole at its end; or nothing but what it remembers of truncations.
  const bool more = end < seen.end || (image->runs.empty() && seen.epoch != Epoch{});
  if (more && co_await send(seen.end, {}) == Placed::kFailed)
    co_return fail(Errc::kUnavailable, "{}", leaving->trouble());
  co_return bytes;
}

// ---- giving back ----

Task<slice::Status> Sites::clear(std::vector<std::uint32_t> sites) {
  std::vector<SiteId> theirs;
  for (std::uint32_t site : sites) theirs.push_back(SiteId{site});
  slice::Status cleared = co_await store_.clear(std::move(theirs));
  // Nobody tells this server any more of what becomes of these files.
  authority_.forget_those([&](FileId file) { return wire::has_site(sites, site_of(file)); });
  co_return cleared;
}

// ---- at the new owner ----

void Sites::learn(const std::vector<wire::LateWrite>& writes) {
  for (const wire::LateWrite& write : writes) late_writes_.learn(write);
}

Task<slice::Status> Sites::put(const wire::PlaceFileArgs& args) {
  switch (args.what) {
    case What::kCut:
      return store_.truncate(args.file, args.offset, args.epoch);
    case What::kRemoved:
      return store_.remove(args.file);
    default:
      return store_.place(args.file, args.offset, args.data, {.epoch = args.epoch, .mtime = args.mtime});
  }
}

Task<wire::PlaceResult> Sites::place(wire::PlaceFileArgs args) {
  wire::PlaceResult result{.verifier = context_.verifier.largest()};
  const std::uint64_t threshold = store_.threshold();
  if (args.what == What::kBytes && (args.offset > threshold || args.data.size() > threshold - args.offset)) {
    result.status = NfsStatus::kInval;
    co_return result;
  }
  const auto placing = arriving_.enter(args.move, args.attempt, site_of(args.file));
  if (!placing) {
    result.status = NfsStatus::kStale;
    co_return result;
  }
  const service::StripeName file{args.file, 0};
  if (!numbers_.take(file, args.number)) {
    result.number = numbers_.greatest(file);
    result.status = NfsStatus::kNotSync;
    co_return result;
  }
  co_await context_.crash.reach("site.placing");
  if (slice::Status done = co_await put(args)) {
    placed_bytes_.add(args.data.size());
  } else {
    result.status = is_stale(done) ? NfsStatus::kNoEnt : nfs3::status_of(done.error());
  }
  result.verifier = context_.verifier.largest();
  co_await context_.crash.reach("site.placed");
  co_return result;
}

}  // namespace slice::smallfile
