#include "coordinator/layouts.h"

#include <algorithm>

namespace slice::coordinator {

using nfs3::Status;
using wire::StripeRange;

namespace {

constexpr std::uint64_t kFewStripes = 1024;  // looked at one by one

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

// Versions go on where the last process stopped: by the clock, and by what the log says.
Layouts::Layouts(service::ServiceContext& context, Intentions& intentions, Sessions& sessions)
    : context_(context),
      intentions_(intentions),
      sessions_(sessions),
      version_(static_cast<std::uint64_t>(context.loop.wall().ns)),
      dropped_(version_),
      missing_gauge_(context.metrics.counter("coordinator_copies_missing_something")),
      missed_(context.metrics.counter("coordinator_missed_total")),
      refused_(context.metrics.counter("coordinator_missed_refused_total")) {}

wire::FileLayout Layouts::of(FileId file) const {
  wire::FileLayout layout{.version = version_, .changed = dropped_, .missing = {}};
  auto found = files_.find(file);
  if (found == files_.end()) return layout;
  layout.changed = found->second->changed;
  for (const auto& [server, copy] : found->second->copies) layout.missing.push_back(copy.missing);
  return layout;
}

bool Layouts::joins(FileId file, std::uint32_t server) const {
  auto found = files_.find(file);
  if (found == files_.end()) return false;
  auto copy = found->second->copies.find(server);
  return copy != found->second->copies.end() && copy->second.missing.joining;
}

bool Layouts::misses_everything(FileId file, std::uint32_t server) const {
  auto found = files_.find(file);
  if (found == files_.end()) return false;
  auto copy = found->second->copies.find(server);
  return copy != found->second->copies.end() &&
         copy->second.missing.stripes == std::vector<StripeRange>{{0, wire::kAllStripes}};
}

void Layouts::drop_if_idle(FileId file) {
  auto found = files_.find(file);
  if (found->second->users > 0 || !found->second->copies.empty()) return;
  dropped_ = std::max(dropped_, found->second->changed);
  files_.erase(found);
}

// A file's stripes are spread by a hash: many of them are on every site.
bool Layouts::another_is_whole(const File& file, const routing::FileHandle& handle, std::uint32_t server,
                               StripeRange stripes) const {
  const routing::RoutingTables& tables = *context_.tables.get();
  std::vector<std::uint32_t> incomplete{server};
  for (const auto& [other, copy] : file.copies) {
    bool overlaps = std::any_of(
        copy.missing.stripes.begin(), copy.missing.stripes.end(),
        [&](const StripeRange& range) { return range.first < stripes.end && stripes.first < range.end; });
    if (overlaps) incomplete.push_back(other);
  }
  if (incomplete.size() == 1) return true;
  auto covered = [&](const std::vector<std::uint32_t>& copies) {
    return std::all_of(copies.begin(), copies.end(), [&](std::uint32_t copy) {
      return std::find(incomplete.begin(), incomplete.end(), copy) != incomplete.end();
    });
  };
  if (stripes.end - stripes.first > kFewStripes) {
    std::uint32_t sites = tables.core().site_mask[SLICE_CLASS_STORAGE] + 1;
    for (std::uint32_t site = 0; site < sites; ++site) {
      if (covered(tables.copies_of(SiteId{site}, routing::copies_of(handle)))) return false;
    }
    return true;
  }
  wire::FileLayout layout = of(handle.fileid);
  for (std::uint64_t stripe = stripes.first; stripe < stripes.end; ++stripe) {
    auto whole = routing::copies_of_stripe(tables, layout, handle, stripe).whole;
    std::erase(whole, server);
    if (whole.empty()) return false;
  }
  return true;
}

Task<Status> Layouts::put(File& file, const routing::FileHandle& handle, wire::Missing missing) {
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
  place->second = {std::move(missing), *sequence};
  file.changed = next_version();
  co_await sessions_.recall(handle.fileid, file.changed);
  co_await context_.crash.reach("missing.recalled");
  co_return Status::kOk;
}

Task<Status> Layouts::missed(routing::FileHandle handle, std::uint32_t server, StripeRange stripes) {
  Use use(*this, handle);
  File& file = use.file();
  auto lock = co_await file.lock.lock();
  wire::Missing missing{.server = server, .stripes = {}};
  if (auto found = file.copies.find(server); found != file.copies.end()) {
    missing = found->second.missing;
    bool known = std::any_of(missing.stripes.begin(), missing.stripes.end(), [&](const StripeRange& range) {
      return range.first <= stripes.first && stripes.end <= range.end;
    });
    if (known && !missing.joining) co_return Status::kOk;
  } else if (missing_ >= kMaxMissing) {
    refused_.add();
    co_return Status::kJukebox;
  }
  if (!another_is_whole(file, handle, server, stripes)) {
    refused_.add();
    co_return Status::kJukebox;
  }
  missed_.add();
  missing.joining = false;
  routing::add(missing.stripes, stripes);
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
  file.changed = next_version();
  co_await sessions_.recall(handle.fileid, file.changed);
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
  co_await sessions_.recall(handle.fileid, file.changed);
  co_await context_.crash.reach("missing.whole");
  co_return true;
}

void Layouts::erase(File& file, std::uint32_t server) {
  auto found = file.copies.find(server);
  intentions_.end(found->second.sequence);
  file.copies.erase(found);
  file.changed = next_version();
  missing_gauge_.set(--missing_);
}

void Layouts::forget(FileId file) {
  auto found = files_.find(file);
  if (found == files_.end()) return;
  while (!found->second->copies.empty()) erase(*found->second, found->second->copies.begin()->first);
  drop_if_idle(file);
}

void Layouts::resume(storage::LogSequence sequence, const Intention& intention) {
  version_ = std::max(version_, intention.version) + 1;
  dropped_ = version_;
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

std::vector<std::pair<routing::FileHandle, std::uint32_t>> Layouts::owed() const {
  std::vector<std::pair<routing::FileHandle, std::uint32_t>> all;
  for (const auto& [id, file] : files_) {
    for (const auto& [server, copy] : file->copies) all.emplace_back(file->handle, server);
  }
  return all;
}

}  // namespace slice::coordinator
