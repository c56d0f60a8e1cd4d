// Registry: what several managers share: contents under a few names, and who of them leads, which ends by
// itself where its holder falls silent. Each write is one transaction that compares the contents' revision
// and the leader. The engines: etcd (etcd_registry.h), and memory (testing/memory_registry.h).
//
// An error of any of these but kInvalid, kTooLarge, kNoSpace and kDenied says that it is not known whether it
// was done, or will be still. One loop.
#ifndef SLICE_CONTROL_MANAGER_REGISTRY_H
#define SLICE_CONTROL_MANAGER_REGISTRY_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/bytes.h"
#include "common/loop.h"
#include "common/result.h"
#include "common/task.h"
#include "wire/leader.h"

namespace slice::manager {

// When something was made or changed, in the order of the registry; 0: it is not there.
using Revision = std::uint64_t;

// For how long its holder may be silent.
struct Lease {
  std::uint64_t id = 0;
  Duration time{};  // at least what was asked for
};

struct LeaderEntry {
  std::string holder;  // what stand() was given; empty: nobody leads
  Revision since = 0;  // of no two terms the same
  std::uint64_t lease = 0;
};

struct Stored {
  Buffer contents;
  Revision revision = 0;
};

struct WriteResult {
  bool written = false;
  // Under the name now; without contents where they were written.
  Stored now;
  LeaderEntry leader;  // as of now; not told where it was written
};

class Registry {
 public:
  // Of the contents of one name: etcd refuses requests of 1.5 MiB. An ensemble of 1023 servers with long
  // names, and with all sites on their way, has less than half of it.
  static constexpr std::size_t kMaxContents = 1'400'000;

  Registry() = default;
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;
  virtual ~Registry() = default;

  virtual Task<Result<Lease>> grant(Duration time) = 0;
  // Its time begins anew. kNotFound: it is over.
  virtual Task<Status> keep(std::uint64_t lease) = 0;
  // It is over, and its holder leads no more.
  virtual Task<Status> revoke(std::uint64_t lease) = 0;
  virtual Task<Result<LeaderEntry>> leader() = 0;
  // Makes `holder` the leader as long as the lease lasts, where nobody is. Who leads then.
  virtual Task<Result<LeaderEntry>> stand(std::string holder, std::uint64_t lease) = 0;

  virtual Task<Result<Stored>> read(std::string name) = 0;
  // Where the name has this revision, and the leader is that since `leader`. Durable where it is written.
  virtual Task<Result<WriteResult>> write(std::string name, ByteView contents, Revision revision,
                                          Revision leader) = 0;

  virtual std::vector<wire::StorePlace> places() const = 0;
};

}  // namespace slice::manager

#endif  // SLICE_CONTROL_MANAGER_REGISTRY_H
