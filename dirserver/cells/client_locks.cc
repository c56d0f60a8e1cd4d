#include "dirserver/cells/client_locks.h"

#include <algorithm>

#include "dirserver/cells/cells_codec.h"

namespace slice::dirserver {
namespace {

// Of one lock in a cell, beside its owner's names and its file's handle.
constexpr std::size_t kFixedBytes = 40;

std::string_view without_domain(std::string_view name) {
  return name.substr(0, name.find('.'));
}

bool same_text(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

std::size_t bytes_of(const Locker& owner) {
  return kFixedBytes + owner.host.name.size() + owner.handle.size();
}
std::size_t bytes_of(const AwaitedLock& wanted) {
  return bytes_of(wanted.lock.owner) + wanted.file.size() + wanted.before.size() * 17;
}

// What is exactly the owner's request for that range; the end where there is none.
template <class Wanted>
auto find_wanted(Wanted& among, const Locker& owner, const ByteRange& range) {
  return std::find_if(among.begin(), among.end(),
                      [&](const AwaitedLock& each) { return each.is_for(owner, range); });
}

// ---- as cells have them ----

void write(CellWriter& out, const Locker& owner) {
  out.address(owner.host.address);
  out.text(owner.host.name);
  out.number(static_cast<std::uint32_t>(owner.process));
  out.text(owner.handle);
}
Locker read_owner(CellReader& in) {
  Locker owner;
  owner.host.address = in.address();
  owner.host.name = in.text();
  owner.process = static_cast<std::int32_t>(in.number<std::uint32_t>());
  owner.handle = in.text();
  return owner;
}

void write(CellWriter& out, const ByteRange& range) {
  out.number(range.first);
  out.number(range.last);
}
ByteRange read_range(CellReader& in) {
  ByteRange range;
  range.first = in.number<std::uint64_t>();
  range.last = in.number<std::uint64_t>();
  if (range.first > range.last) in.fail();
  return range;
}

bool read_flag(CellReader& in) {
  const auto flag = in.number<std::uint8_t>();
  if (flag > 1) in.fail();
  return flag == 1;
}

void write(CellWriter& out, const HeldLock& lock) {
  write(out, lock.owner);
  write(out, lock.range);
  out.number(static_cast<std::uint8_t>(lock.exclusive));
  out.number(static_cast<std::uint32_t>(lock.state));
}
HeldLock read_held(CellReader& in) {
  HeldLock lock;
  lock.owner = read_owner(in);
  lock.range = read_range(in);
  lock.exclusive = read_flag(in);
  lock.state = static_cast<std::int32_t>(in.number<std::uint32_t>());
  return lock;
}

void write(CellWriter& out, const AwaitedLock& wanted) {
  write(out, wanted.lock);
  out.text(wanted.file);
  out.number(static_cast<std::uint16_t>(wanted.before.size()));
  for (const auto& [range, exclusive] : wanted.before) {
    write(out, range);
    out.number(static_cast<std::uint8_t>(exclusive));
  }
}
AwaitedLock read_wanted(CellReader& in) {
  AwaitedLock wanted;
  wanted.lock = read_held(in);
  wanted.file = in.text();
  for (unsigned left = in.number<std::uint16_t>(); left > 0 && in.ok(); --left) {
    const ByteRange range = read_range(in);
    wanted.before.emplace_back(range, read_flag(in));
  }
  return wanted;
}

void write(CellWriter& out, const ShareReservation& share) {
  write(out, share.owner);
  out.number(static_cast<std::uint8_t>(share.denies));
  out.number(static_cast<std::uint8_t>(share.access));
  out.number(static_cast<std::uint32_t>(share.state));
}
ShareReservation read_share(CellReader& in) {
  ShareReservation share;
  share.owner = read_owner(in);
  share.denies = in.number<std::uint8_t>();
  share.access = in.number<std::uint8_t>();
  share.state = static_cast<std::int32_t>(in.number<std::uint32_t>());
  return share;
}

template <class Each>
void write_all(CellWriter& out, const std::vector<Each>& all) {
  out.number(static_cast<std::uint32_t>(all.size()));
  for (const Each& each : all) write(out, each);
}
template <class Each>
std::vector<Each> read_all(CellReader& in, Each (*read)(CellReader&)) {
  std::vector<Each> all;
  for (auto left = in.number<std::uint32_t>(); left > 0 && in.ok(); --left) all.push_back(read(in));
  return all;
}

}  // namespace

bool LockHost::is_called(std::string_view other) const {
  return same_text(name, other) || same_text(without_domain(name), without_domain(other));
}

bool ByteRange::touches(const ByteRange& other) const {
  return (last != UINT64_MAX && last + 1 == other.first) ||
         (other.last != UINT64_MAX && other.last + 1 == first);
}

std::optional<ByteRange> ByteRange::of(std::uint64_t offset, std::uint64_t length) {
  if (length == 0) return ByteRange{offset, UINT64_MAX};
  if (length - 1 > UINT64_MAX - offset) return std::nullopt;
  return ByteRange{offset, offset + length - 1};
}

const HeldLock* ClientLocks::conflict(const HeldLock& wanted) const {
  auto found =
      std::find_if(held_.begin(), held_.end(), [&](const HeldLock& each) { return each.excludes(wanted); });
  return found == held_.end() ? nullptr : &*found;
}

void ClientLocks::set(const HeldLock& how, std::optional<bool> exclusive) {
  HeldLock made = how;
  std::vector<HeldLock> kept;
  for (HeldLock& each : held_) {
    const bool overlaps = each.range.overlaps(how.range);
    const bool joins = exclusive == each.exclusive && (overlaps || each.range.touches(how.range));
    if (each.owner != how.owner || (!overlaps && !joins)) {
      kept.push_back(std::move(each));
    } else if (joins) {
      made.range = {std::min(made.range.first, each.range.first), std::max(made.range.last, each.range.last)};
    } else {
      HeldLock left = each, right = each;
      left.range.last = how.range.first - 1;
      right.range.first = how.range.last + 1;
      if (each.range.first < how.range.first) kept.push_back(std::move(left));
      if (each.range.last > how.range.last) kept.push_back(std::move(right));
    }
  }
  held_ = std::move(kept);
  if (!exclusive) return;
  made.exclusive = *exclusive;
  held_.push_back(std::move(made));
}

void ClientLocks::lock(const HeldLock& lock) {
  set(lock, lock.exclusive);
  // Asked for again, it is had, and known to be.
  std::erase_if(waiting_, [&](const AwaitedLock& each) { return each.is_for(lock.owner, lock.range); });
  std::erase_if(untold_, [&](const AwaitedLock& each) { return each.is_for(lock.owner, lock.range); });
}

bool ClientLocks::unlock(const Locker& owner, const ByteRange& range) {
  const std::size_t waited = waiting_.size() + untold_.size();
  std::erase_if(waiting_, [&](const AwaitedLock& each) { return each.is_for(owner, range); });
  std::erase_if(untold_, [&](const AwaitedLock& each) {
    return each.lock.owner == owner && each.lock.range.overlaps(range);
  });
  const bool had = std::any_of(held_.begin(), held_.end(), [&](const HeldLock& each) {
    return each.owner == owner && each.range.overlaps(range);
  });
  if (had) set({.owner = owner, .range = range}, std::nullopt);
  return had || waited != waiting_.size() + untold_.size();
}

void ClientLocks::wait(AwaitedLock wanted) {
  auto found = find_wanted(waiting_, wanted.lock.owner, wanted.lock.range);
  if (found == waiting_.end()) {
    waiting_.push_back(std::move(wanted));
  } else {
    *found = std::move(wanted);
  }
}

bool ClientLocks::cancel(const HeldLock& wanted) {
  auto found = find_wanted(waiting_, wanted.owner, wanted.range);
  if (found == waiting_.end()) return take_back(wanted.owner, wanted.range);
  waiting_.erase(found);
  return true;
}

bool ClientLocks::grant() {
  bool any = false;
  for (std::size_t i = 0; i < waiting_.size();) {
    if (conflict(waiting_[i].lock) != nullptr) {
      ++i;
      continue;
    }
    AwaitedLock given = std::move(waiting_[i]);
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    given.before.clear();
    for (const HeldLock& each : held_) {
      if (each.owner == given.lock.owner && each.range.overlaps(given.lock.range)) {
        given.before.emplace_back(ByteRange{std::max(each.range.first, given.lock.range.first),
                                            std::min(each.range.last, given.lock.range.last)},
                                  each.exclusive);
      }
    }
    set(given.lock, given.lock.exclusive);
    untold_.push_back(std::move(given));
    any = true;
  }
  return any;
}

bool ClientLocks::told(const Locker& owner, const ByteRange& range) {
  return std::erase_if(untold_, [&](const AwaitedLock& each) { return each.is_for(owner, range); }) > 0;
}

bool ClientLocks::take_back(const Locker& owner, const ByteRange& range) {
  auto found = find_wanted(untold_, owner, range);
  if (found == untold_.end()) return false;
  AwaitedLock back = std::move(*found);
  untold_.erase(found);
  set(back.lock, std::nullopt);
  for (const auto& [had, exclusive] : back.before) {
    HeldLock again = back.lock;
    again.range = had;
    set(again, exclusive);
  }
  return true;
}

bool ClientLocks::share(const ShareReservation& wanted) {
  for (const ShareReservation& each : shares_) {
    if (each.owner == wanted.owner) continue;
    if ((each.denies & wanted.access) != 0 || (wanted.denies & each.access) != 0) return false;
  }
  unshare(wanted.owner);
  shares_.push_back(wanted);
  return true;
}

bool ClientLocks::unshare(const Locker& owner) {
  return std::erase_if(shares_, [&](const ShareReservation& each) { return each.owner == owner; }) > 0;
}

bool ClientLocks::free(IpAddress address, std::string_view name, std::optional<std::int32_t> keep) {
  auto goes = [&](const Locker& owner, std::int32_t state) {
    return owner.host.address == address && state != keep && owner.host.is_called(name);
  };
  auto goes_wanted = [&](const AwaitedLock& each) { return goes(each.lock.owner, each.lock.state); };
  std::size_t gone = std::erase_if(held_, [&](const HeldLock& each) { return goes(each.owner, each.state); });
  gone += std::erase_if(waiting_, goes_wanted) + std::erase_if(untold_, goes_wanted);
  gone += std::erase_if(shares_, [&](const ShareReservation& each) { return goes(each.owner, each.state); });
  return gone > 0;
}

bool ClientLocks::has_room(const AwaitedLock& wanted) const {
  // A lock in the midst of another of its owner makes three of it.
  const std::size_t more = bytes_of(wanted) + bytes_of(wanted.lock.owner);
  std::size_t all = more, clients = more;
  auto add = [&](const Locker& owner, std::size_t bytes) {
    all += bytes;
    if (owner.host.address == wanted.lock.owner.host.address) clients += bytes;
  };
  for (const HeldLock& each : held_) add(each.owner, bytes_of(each.owner));
  for (const AwaitedLock& each : waiting_) add(each.lock.owner, bytes_of(each));
  for (const AwaitedLock& each : untold_) add(each.lock.owner, bytes_of(each));
  for (const ShareReservation& each : shares_) add(each.owner, bytes_of(each.owner));
  return all <= kMostBytes && clients <= kMostBytesOfClient;
}

std::string encode(const ClientLocks& locks) {
  CellWriter out;
  write_all(out, locks.held());
  write_all(out, locks.waiting());
  write_all(out, locks.untold());
  write_all(out, locks.shares());
  return out.take();
}

Result<ClientLocks> decode_client_locks(std::string_view value) {
  CellReader in(value);
  ClientLocks locks;
  locks.held_ = read_all(in, read_held);
  locks.waiting_ = read_all(in, read_wanted);
  locks.untold_ = read_all(in, read_wanted);
  locks.shares_ = read_all(in, read_share);
  return in.finish(std::move(locks), "client locks");
}

}  // namespace slice::dirserver
