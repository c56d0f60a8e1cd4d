#include "dirserver/store/client_lock_cells.h"

#include <utility>

namespace slice::dirserver {
namespace {

// fileIDs begin with the site.
FileId first_of(SiteId site) {
  return FileId{std::uint64_t{site.value} << 48};
}

}  // namespace

Status ClientLockCells::load(const storage::KvStore& store, SiteId site) {
  release(site);
  const KeyRange range = range_of(site, CellKind::kClientLocks);
  auto at = store.iterate(range.begin, range.end);
  for (; at->valid(); at->next()) {
    auto locks = decode_client_locks(at->value());
    const FileId file{last_number(at->key())};
    if (!locks) return fail(locks.error(), fmt::format("of file {:#x}", file.value));
    replace(file, std::move(*locks));
  }
  return at->status();
}

void ClientLockCells::release(SiteId site) {
  for (FileId file : files(site)) replace(file, {});
}

const ClientLocks* ClientLockCells::find(FileId file) const {
  auto found = files_.find(file);
  return found == files_.end() ? nullptr : &found->second;
}

std::vector<FileId> ClientLockCells::files(SiteId site) const {
  std::vector<FileId> all;
  const auto end = files_.lower_bound(first_of(SiteId{site.value + 1}));
  for (auto at = files_.lower_bound(first_of(site)); at != end; ++at) all.push_back(at->first);
  return all;
}

bool ClientLockCells::full(IpAddress address) const {
  auto found = by_client_.find(address);
  return found != by_client_.end() && found->second >= kMostOfClient;
}

std::set<Locker> ClientLockCells::in_the_way(const ClientLocks& file, const HeldLock& wanted) {
  std::set<Locker> holders;
  for (const HeldLock& held : file.held()) {
    if (held.excludes(wanted)) holders.insert(held.owner);
  }
  return holders;
}

std::set<Locker> ClientLockCells::leads_to(std::set<Locker> from) const {
  std::vector<Locker> next(from.begin(), from.end());
  std::size_t looks = 0;
  while (!next.empty() && !with_waiters_.empty()) {
    const Locker holder = std::move(next.back());
    next.pop_back();
    for (FileId file : with_waiters_) {
      const ClientLocks& locks = files_.find(file)->second;
      for (const AwaitedLock& waits : locks.waiting()) {
        if (++looks > kMostLooks || from.size() > kMostLed) return from;
        if (waits.lock.owner != holder) continue;
        for (const Locker& each : in_the_way(locks, waits.lock)) {
          if (from.insert(each).second) next.push_back(each);
        }
      }
    }
  }
  return from;
}

void ClientLockCells::count(const ClientLocks& locks, std::int64_t by) {
  held_count_ += by * static_cast<std::int64_t>(locks.held().size() + locks.shares().size());
  waiting_count_ += by * static_cast<std::int64_t>(locks.waiting().size());
  locks.each_address([&](IpAddress address) {
    std::size_t& many = by_client_[address];
    many = static_cast<std::size_t>(static_cast<std::int64_t>(many) + by);
    if (many == 0) by_client_.erase(address);
  });
  locks_.set(static_cast<std::uint64_t>(held_count_));
  waiting_.set(static_cast<std::uint64_t>(waiting_count_));
}

void ClientLockCells::replace(FileId file, ClientLocks locks) {
  if (auto found = files_.find(file); found != files_.end()) {
    count(found->second, -1);
    files_.erase(found);
    with_waiters_.erase(file);
  }
  if (locks.empty()) return;
  count(locks, 1);
  if (!locks.waiting().empty()) with_waiters_.insert(file);
  files_.emplace(file, std::move(locks));
}

}  // namespace slice::dirserver
