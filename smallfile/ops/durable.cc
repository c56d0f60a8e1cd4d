#include "smallfile/ops/durable.h"

#include <vector>

namespace slice::smallfile {

using service::NfsRequest;

service::OwnPart own_part(const Store::Seen& seen) {
  return {.epoch = seen.epoch, .end = seen.end, .mtime = seen.mtime};
}

Task<Status> make_durable(Shared& shared, storage::LogSequence sequence) {
  co_await shared.context.crash.reach("small.written");
  Status status = co_await shared.store.durable(sequence);
  co_await shared.context.crash.reach("small.durable");
  co_return status;
}

// Both at once, since each waits for a disk. A crash in between may leave the size without the bytes, which
// then read as zeros, or the bytes without the size: nobody was told that the write is durable.
Task<Status> make_durable_and_tell(Shared& shared, const NfsRequest& request, const Store::Written& written) {
  const Store::Seen& seen = written.seen;
  std::vector<Task<Status>> both;
  both.reserve(2);
  both.push_back(make_durable(shared, written.sequence));
  both.push_back(shared.authority.report(request.handle, seen.epoch, seen.end, seen.mtime));
  for (Status& status : co_await all(std::move(both))) {
    if (!status) co_return std::move(status);
  }
  co_await shared.context.crash.reach("small.reported");
  shared.store.reported(request.handle.fileid, seen);
  co_return Status{};
}

}  // namespace slice::smallfile
