#include "smallfile/ops/durable.h"

#include <vector>

namespace slice::smallfile {

using service::NfsRequest;

service::OwnPart own_part(const Store::Seen& seen) {
  return {.epoch = seen.epoch, .end = seen.end, .mtime = seen.mtime};
}

Task<Status> make_durable(Parts& parts, storage::LogSequence sequence) {
  co_await parts.context.crash.reach("small.written");
  Status status = co_await parts.store.durable(sequence);
  co_await parts.context.crash.reach("small.durable");
  co_return status;
}

// Both at once, since each waits for a disk. A crash in between may leave the size without the bytes, which
// then read as zeros, or the bytes without the size: nobody was told that the write is durable.
Task<Status> make_durable_and_tell(Parts& parts, const NfsRequest& request, const Store::Written& written) {
  const Store::Seen& seen = written.seen;
  std::vector<Task<Status>> both;
  both.reserve(2);
  both.push_back(make_durable(parts, written.sequence));
  both.push_back(parts.authority.report(request.handle, seen.epoch, seen.end, seen.mtime));
  for (Status& status : co_await all(std::move(both))) {
    if (!status) co_return std::move(status);
  }
  co_await parts.context.crash.reach("small.reported");
  parts.store.reported(request.handle.fileid, seen);
  co_return Status{};
}

}  // namespace slice::smallfile
