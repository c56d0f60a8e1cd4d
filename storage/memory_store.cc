#include "storage/memory_store.h"

#include <algorithm>
#include <utility>

namespace slice::storage {

std::size_t MemoryMedium::size() const {
  return static_cast<std::size_t>(std::count_if(keys_.begin(), keys_.end(), [](const auto& entry) {
    return !entry.second.empty() && entry.second.back().value.has_value();
  }));
}

void MemoryMedium::corrupt(std::string_view key) {
  auto found = keys_.find(key);
  if (found == keys_.end()) return;
  for (Version& version : found->second) version.corrupt = true;
}

const MemoryMedium::Version* MemoryMedium::visible(const Versions& versions, std::uint64_t at) {
  for (auto version = versions.rbegin(); version != versions.rend(); ++version) {
    if (version->position <= at) return &*version;
  }
  return nullptr;
}

// Looks at the store as it was at one position, whatever is applied meanwhile.
class MemoryIterator : public KvIterator {
 public:
  MemoryIterator(const MemoryStore& store, std::uint64_t position, std::string_view begin,
                 std::string_view end)
      : store_(store), at_position_(position), begin_(begin), end_(end) {
    view_ = store_.views_.insert(at_position_);
    seek(begin_);
  }
  ~MemoryIterator() override { store_.views_.erase(view_); }

  void seek(std::string_view at_or_after) override {
    at_ = store_.medium_.keys_.lower_bound(std::max(at_or_after, std::string_view(begin_)));
    settle();
  }
  void next() override {
    ++at_;
    settle();
  }
  bool valid() const override { return valid_; }
  std::string_view key() const override { return at_->first; }
  // Looked for anew: more versions may have come since, and moved this one.
  std::string_view value() const override { return *MemoryMedium::visible(at_->second, at_position_)->value; }
  Status status() const override {
    if (corrupt_) return fail(Errc::kCorrupt, "memory store: a value in the range fails its checksum");
    return {};
  }

 private:
  // Moves on to the next key that has a value in this view.
  void settle() {
    valid_ = false;
    for (; at_ != store_.medium_.keys_.end() && at_->first < end_; ++at_) {
      const auto* version = MemoryMedium::visible(at_->second, at_position_);
      if (version == nullptr || !version->value) continue;
      if (version->corrupt) {
        corrupt_ = true;
        return;
      }
      valid_ = true;
      return;
    }
  }

  const MemoryStore& store_;
  std::uint64_t at_position_;
  std::string begin_, end_;
  std::multiset<std::uint64_t>::iterator view_;
  std::map<std::string, MemoryMedium::Versions, std::less<>>::const_iterator at_;
  bool valid_ = false, corrupt_ = false;
};

class MemorySnapshot : public KvReader {
 public:
  explicit MemorySnapshot(const MemoryStore& store)
      : store_(store), position_(store.applied_), view_(store.views_.insert(position_)) {}
  ~MemorySnapshot() override { store_.views_.erase(view_); }
  Result<std::optional<std::string>> get(std::string_view key) const override {
    return store_.get_at(key, position_);
  }
  std::unique_ptr<KvIterator> iterate(std::string_view begin, std::string_view end) const override {
    return std::make_unique<MemoryIterator>(store_, position_, begin, end);
  }

 private:
  const MemoryStore& store_;
  const std::uint64_t position_;
  const std::multiset<std::uint64_t>::iterator view_;
};

MemoryStore::MemoryStore(Loop& loop, MemoryMedium& medium, Options options)
    : loop_(loop),
      medium_(medium),
      options_(options),
      applied_(medium.durable_),
      alive_(std::make_shared<bool>(true)) {}

MemoryStore::~MemoryStore() {
  if (*alive_) crash();
}

Result<std::optional<std::string>> MemoryStore::get(std::string_view key) const {
  return get_at(key, applied_);
}

Result<std::optional<std::string>> MemoryStore::get_at(std::string_view key, std::uint64_t position) const {
  if (!*alive_) return fail(Errc::kIo, "memory store: crashed");
  auto found = medium_.keys_.find(key);
  if (found == medium_.keys_.end()) return std::optional<std::string>();
  const auto* version = MemoryMedium::visible(found->second, position);
  if (version == nullptr || !version->value) return std::optional<std::string>();
  if (version->corrupt) return fail(Errc::kCorrupt, "memory store: a value fails its checksum");
  return version->value;
}

std::unique_ptr<KvIterator> MemoryStore::iterate(std::string_view begin, std::string_view end) const {
  return std::make_unique<MemoryIterator>(*this, applied_, begin, end);
}

std::unique_ptr<KvReader> MemoryStore::snapshot() const {
  return std::make_unique<MemorySnapshot>(*this);
}

Result<LogPosition> MemoryStore::apply(const WriteBatch& batch) {
  if (!*alive_) return fail(Errc::kIo, "memory store: crashed");
  if (failed_) return fail(Errc::kIo, "memory store: a sync failed before, no change is taken");
  if (no_space_) return fail(Errc::kNoSpace, "memory store: no space");
  if (batch.empty()) return LogPosition{applied_};
  ++applied_;
  for (const WriteBatch::Change& change : batch.changes()) {
    auto& versions = medium_.keys_[change.key];
    if (!versions.empty() && versions.back().position == applied_) {
      versions.back().value = change.value;  // the same key twice in one batch: the last counts
    } else {
      versions.push_back({applied_, change.value, false});
    }
    drop_old_versions(versions);
  }
  return LogPosition{applied_};
}

// Keeps what the durable state, living iterators and later readers may still look at.
void MemoryStore::drop_old_versions(MemoryMedium::Versions& versions) const {
  std::uint64_t oldest = medium_.durable_;
  if (!views_.empty()) oldest = std::min(oldest, *views_.begin());
  std::size_t keep = 0;
  while (keep + 1 < versions.size() && versions[keep + 1].position <= oldest) ++keep;
  versions.erase(versions.begin(), versions.begin() + static_cast<std::ptrdiff_t>(keep));
}

Task<Status> MemoryStore::durable(LogPosition position) {
  if (!*alive_) co_return fail(Errc::kUnavailable, "memory store: crashed");
  if (position.value <= medium_.durable_) co_return Status{};
  if (failed_) co_return fail(Errc::kIo, "memory store: a sync failed before");
  Waiter waiter{position.value, {}};
  waiters_.push_back(waiter);
  start_sync();
  co_return co_await waiter.done;
}

void MemoryStore::start_sync() {
  if (syncing_ || hold_ || waiters_.empty()) return;
  syncing_ = true;
  // What was applied before the sync began is durable after it, as with fsync.
  loop_.after(options_.sync_time, [this, alive = alive_, up_to = applied_] {
    if (*alive) end_sync(up_to);
  });
}

void MemoryStore::end_sync(std::uint64_t up_to) {
  syncing_ = false;
  if (hold_) return;
  ++syncs_;
  if (std::exchange(fail_next_sync_, false)) {
    failed_ = true;
    fail_waiters(Errc::kIo, "memory store: sync failed");
    return;
  }
  medium_.durable_ = std::max(medium_.durable_, up_to);
  std::vector<Waiter> ready;
  std::erase_if(waiters_, [&](Waiter& waiter) {
    if (waiter.position > up_to) return false;
    ready.push_back(std::move(waiter));
    return true;
  });
  start_sync();
  auto alive = alive_;
  for (std::size_t i = 0; i < ready.size(); ++i) {
    ready[i].done.set(Status{});
    if (*alive) continue;
    // Killed by the one that was resumed: the others wait for ever.
    waiters_.insert(waiters_.end(), ready.begin() + static_cast<std::ptrdiff_t>(i) + 1, ready.end());
    return;
  }
}

void MemoryStore::fail_waiters(Errc code, std::string_view reason) {
  for (Waiter& waiter : std::exchange(waiters_, {})) waiter.done.set(fail(code, "{}", reason));
}

void MemoryStore::crash() {
  close_medium(0);
  fail_waiters(Errc::kUnavailable, "memory store: crashed");
}

void MemoryStore::kill(std::uint64_t survivors) {
  if (*alive_) close_medium(survivors);
}

void MemoryStore::close_medium(std::uint64_t survivors) {
  *alive_ = false;
  medium_.durable_ = std::min(applied_, medium_.durable_ + survivors);
  for (auto entry = medium_.keys_.begin(); entry != medium_.keys_.end();) {
    auto& versions = entry->second;
    std::erase_if(versions, [&](const auto& version) { return version.position > medium_.durable_; });
    if (versions.size() > 1) versions.erase(versions.begin(), versions.end() - 1);
    entry = versions.empty() ? medium_.keys_.erase(entry) : std::next(entry);
  }
}

void MemoryStore::set_no_space(bool no_space) {
  no_space_ = no_space;
}

void MemoryStore::hold_syncs(bool hold) {
  hold_ = hold;
  if (!hold) start_sync();
}

}  // namespace slice::storage
