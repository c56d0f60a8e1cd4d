// ClientLocks: what clients have locked of one file, over NLM version 4 (X/Open XNFS, appendix D): byte
// ranges, who waits for some, and share reservations. Rules only: where it is kept is
// store/client_lock_cells.h, how it is stored docs/formats/cells.md. Locks are advisory, as POSIX has them:
// READs and WRITEs do not look at them.
#ifndef SLICE_DIRSERVER_CELLS_CLIENT_LOCKS_H
#define SLICE_DIRSERVER_CELLS_CLIENT_LOCKS_H

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/result.h"

namespace slice::dirserver {

// A host by its address and by the name that it calls itself: several may share either.
struct LockHost {
  IpAddress address;
  std::string name;
  auto operator<=>(const LockHost&) const = default;
  // Whether a host that says that this is its name may be the one: NSM's name may have a domain behind it.
  bool is_called(std::string_view other) const;
};

// Whose a lock is, as NLM says it: a host's, and there svid's and oh's.
struct Locker {
  LockHost host;
  std::int32_t process = 0;  // svid
  std::string handle;        // oh
  auto operator<=>(const Locker&) const = default;
};

// Bytes first to last, both within it.
struct ByteRange {
  std::uint64_t first = 0, last = 0;
  auto operator<=>(const ByteRange&) const = default;
  bool overlaps(const ByteRange& other) const { return first <= other.last && other.first <= last; }
  // One range begins where the other ends.
  bool touches(const ByteRange& other) const;
  // NLM's: a length of 0 is to the end of everything. Nothing where it would end beyond 2^64.
  static std::optional<ByteRange> of(std::uint64_t offset, std::uint64_t length);
  std::uint64_t length() const { return last == UINT64_MAX ? 0 : last - first + 1; }
};

struct HeldLock {
  Locker owner;
  ByteRange range;
  bool exclusive = false;
  std::int32_t state = 0;  // NSM's number of the run of the client's host that took it
  bool operator==(const HeldLock&) const = default;
  // Two owners cannot have both.
  bool excludes(const HeldLock& other) const {
    return (exclusive || other.exclusive) && range.overlaps(other.range) && owner != other.owner;
  }
};

// A lock that its owner waits for, or has been given and not been told of.
struct AwaitedLock {
  HeldLock lock;
  std::string file;  // the handle, as the client sent it: GRANTED says the very same
  // Once given: what the owner had of that range before, which it has again if it does not want the lock.
  std::vector<std::pair<ByteRange, bool>> before;
  bool operator==(const AwaitedLock&) const = default;
  bool is_for(const Locker& owner, const ByteRange& range) const {
    return lock.owner == owner && lock.range == range;
  }
};

// DOS's share modes: bits 1 to read, 2 to write.
struct ShareReservation {
  Locker owner;
  std::uint32_t denies = 0, access = 0;
  std::int32_t state = 0;
  bool operator==(const ShareReservation&) const = default;
};

class ClientLocks {
 public:
  // What one file's may take, and one client's of that: a cell is written whole with each change.
  static constexpr std::size_t kMostBytes = 256 << 10;
  static constexpr std::size_t kMostBytesOfClient = kMostBytes / 2;

  // The first lock of another owner that is in the way; null where there is none.
  const HeldLock* conflict(const HeldLock& wanted) const;
  // Nothing is in its way: the owner has it, in place of what it had of that range.
  void lock(const HeldLock& lock);
  // The owner has none of the range any more, and waits for exactly that no more. Whether anything changed.
  bool unlock(const Locker& owner, const ByteRange& range);
  // The owner waits, once for each range.
  void wait(AwaitedLock wanted);
  // It does not wait any more for what exactly this is; was it given and not told of, it is taken back.
  // Whether anything changed.
  bool cancel(const HeldLock& wanted);
  // Gives who waits what nothing is in the way of any more, first come first served. Whether there was any.
  bool grant();
  // A lock of untold(): its owner knows of it, or does not want it.
  bool told(const Locker& owner, const ByteRange& range);
  bool take_back(const Locker& owner, const ByteRange& range);
  // False where another reservation is in the way.
  bool share(const ShareReservation& wanted);
  bool unshare(const Locker& owner);
  // All of a host, as it calls itself, but what runs with NSM's number `keep` took. Whether anything changed.
  bool free(IpAddress address, std::string_view name, std::optional<std::int32_t> keep);

  bool empty() const { return held_.empty() && waiting_.empty() && untold_.empty() && shares_.empty(); }
  // Whether the lock can be had beside all others, by the limits above.
  bool has_room(const AwaitedLock& wanted) const;
  // Locks and reservations, by whose they are.
  template <class Visit>
  void each_address(const Visit& visit) const {
    for (const HeldLock& lock : held_) visit(lock.owner.host.address);
    for (const AwaitedLock& wanted : waiting_) visit(wanted.lock.owner.host.address);
    for (const ShareReservation& share : shares_) visit(share.owner.host.address);
  }

  // In no order.
  const std::vector<HeldLock>& held() const { return held_; }
  // In the order in which they came, and in which they were given.
  const std::vector<AwaitedLock>& waiting() const { return waiting_; }
  const std::vector<AwaitedLock>& untold() const { return untold_; }
  const std::vector<ShareReservation>& shares() const { return shares_; }
  bool operator==(const ClientLocks&) const = default;

 private:
  friend Result<ClientLocks> decode_client_locks(std::string_view value);
  // The owner has the range like this: exclusively, shared, or not at all.
  void set(const HeldLock& how, std::optional<bool> exclusive);

  std::vector<HeldLock> held_;  // those of one owner do not overlap
  std::vector<AwaitedLock> waiting_, untold_;
  std::vector<ShareReservation> shares_;
};

std::string encode(const ClientLocks& locks);
Result<ClientLocks> decode_client_locks(std::string_view value);

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_CELLS_CLIENT_LOCKS_H
