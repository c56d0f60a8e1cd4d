// BackingSet: the owner's side of a backing set (docs/backing.md): becomes its owner, keeps sessions with its
// members, sends every change to all of them in one order, takes out of the set who does not follow, and
// fills others in the background. backed_disk.h makes a storage::Disk of it. One loop.
#ifndef SLICE_SERVICE_BACKING_BACKING_SET_H
#define SLICE_SERVICE_BACKING_BACKING_SET_H

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/loop.h"
#include "common/metrics.h"
#include "common/task.h"
#include "rpc/channel.h"
#include "service/managers.h"
#include "storage/disk.h"
#include "wire/backing.h"

namespace slice::service {

// A file of the set, as its owner knows it. Nobody else changes it, so its size needs no asking.
struct SetFile {
  std::string path;
  std::uint64_t size = 0;
  std::uint64_t allocated = 0;    // at the start, and what was written since; about
  std::uint64_t last_change = 0;  // the number of the last CHANGE with something of it
  bool gone = false;              // removed, or another took its name
  // Digests of its pieces (wire/backing.h) that all members have had alike, and that were not written since.
  std::map<std::uint64_t, std::uint32_t> agreed;
};

class BackingSet {
 public:
  // A member that is silent for so long is taken out of the set, where another one is left.
  static constexpr Duration kPatience = std::chrono::seconds(2);
  // So much sooner than the members count does a session end here, for clocks that differ in their pace.
  static constexpr Duration kMargin = std::chrono::milliseconds(100);
  // Changes that not all members have carried out; who writes more waits.
  static constexpr std::size_t kMostUnderWay = 16 << 20;  // bytes

  struct Seams {
    Loop& loop;
    rpc::Channel& channel;
    Metrics& metrics;
    Managers& managers;
    std::uint32_t server = 0;  // whose set
    std::string name;          // of that server, for logs
    rpc::Endpoint at;          // where it would serve
    std::uint32_t copies = 0;
    // The data directory, which one run has at a time: what is in it of an earlier run says that that one has
    // ended. File `backing.run`.
    storage::Disk& local;
    std::function<std::uint64_t()> random;  // 64 random bits
    // This storage server is to have nothing any more.
    std::function<bool(std::uint32_t server)> drained;
    // It is the owner no more, or something that it wrote is lost before it was durable: whatever it has in
    // memory may be wrong, and it must answer nobody. Called once.
    std::function<void(const std::string& why)> lost;
  };
  // What it names outlives it.
  explicit BackingSet(Seams seams);
  // After close(), or where the loop does not run any more.
  ~BackingSet();

  // Becomes the owner: stands by until the manager wants the server to be served here, waits for an epoch,
  // for sessions of former owners to be over, and for one member that has everything; while another run is
  // the owner, and alive, as long as that is so.
  Task<Status> open();
  bool is_open() const;
  // While it is not open: what the manager said.
  enum class Standing { kNotKnown, kStandsBy, kChosen };
  Standing standing() const;
  // What open() waits for, for operators; empty: nothing.
  const std::string& waits_for() const;
  // It is the owner for sure, now: what it reads is so, and whoever was told something by it may rely on it.
  bool holds() const;
  // Ends as soon as holds(). False: it never will again. Who holds again has been the owner all the time:
  // what it found out meanwhile may be told.
  Task<bool> until_holds();
  // Gives the set back: all is durable, and the next owner need not wait.
  Task<void> close();

  // ---- for backed_disk.h ----
  using Files = std::map<std::string, std::shared_ptr<SetFile>, std::less<>>;
  const Files& files() const;
  // Space of the member with least.
  storage::Space space() const;
  // kIo: lost() was called.
  Status intact() const;
  // Adds a change at the end of all; files() has it at once. `bytes` are copied. Returns the number of the
  // CHANGE that will have it.
  std::uint64_t add(const std::shared_ptr<SetFile>& file, wire::BackingOp op, std::uint64_t offset,
                    std::uint64_t length, ByteView bytes);
  std::uint64_t sync_folder(const std::string& folder);
  std::shared_ptr<SetFile> create(const std::string& path);
  void rename(const std::shared_ptr<SetFile>& file, const std::string& to);
  // Ends when all members have carried out this CHANGE, and synced what it says. kIo as intact().
  Task<Status> carried_out(std::uint64_t number);
  // Ends when there is room for one more change.
  Task<Status> room();
  // From one of the members; after all changes of the file so far.
  Task<Result<std::size_t>> read(std::shared_ptr<SetFile> file, std::uint64_t offset, ByteSpan into);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_BACKING_BACKING_SET_H
