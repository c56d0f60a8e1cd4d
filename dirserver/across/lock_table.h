// LockTable: which cells and names of this server a change over several servers holds, from before it reads
// them until it has been carried out (two-phase locking). Operations of one server alone take no locks: they
// read, decide and commit in one step, and only have to stand back where such a change holds something.
//
// Owners wait for younger ones only; who would have to wait for an older one is refused and begins again with
// its old age (wait-die), so nobody waits in a circle and nobody starves. In memory; prepared changes take
// their locks again at the start (participant.h). One loop.
#ifndef SLICE_DIRSERVER_ACROSS_LOCK_TABLE_H
#define SLICE_DIRSERVER_ACROSS_LOCK_TABLE_H

#include <map>
#include <optional>
#include <vector>

#include "common/loop.h"
#include "common/task.h"
#include "dirserver/cells/cells.h"

namespace slice::dirserver {

// A file's attribute cell and, for a directory, what its having names here depends on; or, with a position,
// the names at that position of a directory. File 0, which there is none of: the volume's lock of directory
// renames.
struct LockKey {
  FileId file;
  Position position;
  auto operator<=>(const LockKey&) const = default;
};
inline constexpr LockKey kRenameLock{};

enum class LockMode : std::uint8_t {
  kShared,     // it stays as it is, but for counts and times of a directory
  kExclusive,  // it may be changed
};

// Who holds locks. An older owner has a smaller age; the age of a change is kept over its tries.
struct LockOwner {
  TransactionId id;
  std::uint64_t age = 0;
  bool operator==(const LockOwner& other) const { return id == other.id; }
  bool older_than(const LockOwner& other) const { return age != other.age ? age < other.age : id < other.id; }
};

class LockTable {
 public:
  static constexpr std::uint64_t kOldest = 0;  // an age

  explicit LockTable(Loop& loop) : loop_(loop) {}
  LockTable(const LockTable&) = delete;
  LockTable& operator=(const LockTable&) = delete;

  bool empty() const { return entries_.empty(); }

  // True: `owner` holds it now, in this mode at least. False: it must give up what it holds and begin again,
  // or `limit` has passed.
  Task<bool> acquire(LockOwner owner, LockKey key, LockMode mode, Duration limit);
  // The same without waiting.
  bool try_acquire(const LockOwner& owner, LockKey key, LockMode mode);
  // The same, whatever others hold: of a promise that came with its site. Who else holds the key has locked
  // what was here of it, which is another part of a directory.
  void take(const LockOwner& owner, LockKey key, LockMode mode) { grant(owner, key, mode); }
  bool holds(const TransactionId& owner, LockKey key, LockMode mode) const;
  // What `owner` holds may be about to change everywhere at once: readers wait from now on, too.
  void prepare(const TransactionId& owner);
  // Nobody waits for `owner` any more: all others give up what they hold, and come again. So it may wait for
  // a call to another server, which has no age.
  void make_oldest(const TransactionId& owner);
  void release(const TransactionId& owner);
  // All that `owner` holds but this.
  void release_all_but(const TransactionId& owner, LockKey kept);

  // Whether a change in this mode by `self` (nullptr: one of a single step) has to stand back.
  bool stops_change(LockKey key, LockMode mode, const TransactionId* self) const;
  // Whether what is there may be shown.
  bool stops_reading(LockKey key) const;
  // Whether some name of the directory is prepared to change.
  bool stops_listing(FileId directory) const { return prepared_in(directory).has_value(); }
  // Until something about the key, or about what stops_listing(), has changed; at most `limit`.
  Task<void> changed(LockKey key, Duration limit) { return wait(key, true, limit); }
  // Until nothing stops a change of one step that rewrites the file's cell, or showing what is at the key.
  Task<void> until_free(FileId file);
  Task<void> until_readable(LockKey key);
  Task<void> listing_changed(FileId directory, Duration limit);

 private:
  struct Holder {
    LockOwner owner;
    LockMode mode;
    bool prepared = false;
  };
  struct Entry {
    std::vector<Holder> holders;
    std::vector<OneShot<bool>> waiting;
    unsigned exclusive_waiters = 0;  // shared locks are not given out before them for ever
  };
  std::optional<LockKey> prepared_in(FileId directory) const;
  enum class Verdict { kGranted, kWait, kRefused };
  Verdict judge(const LockOwner& owner, const Entry& entry, LockMode mode) const;
  void grant(const LockOwner& owner, LockKey key, LockMode mode);
  Task<void> wait(LockKey key, bool exclusive, Duration limit);
  void wake(Entry& entry);
  void let_go(const TransactionId& owner, const std::vector<LockKey>& keys);
  void drop_if_idle(LockKey key);

  Loop& loop_;
  std::map<LockKey, Entry> entries_;
  std::map<TransactionId, std::vector<LockKey>> held_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_ACROSS_LOCK_TABLE_H
