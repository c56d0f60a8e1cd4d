// WriteBack: tells directory servers what the attribute cache has not told them, now and then and when
// entries leave the cache. Of size and mtime it is the second to do so: data servers tell of writes within a
// second, and before they answer a COMMIT. Of atime it is the only one. Losing any of it is harmless.
#ifndef SLICE_PROXY_TABLES_WRITE_BACK_H
#define SLICE_PROXY_TABLES_WRITE_BACK_H

#include <deque>

#include "proxy/tables/attribute_cache.h"
#include "proxy/tables/tables.h"
#include "routing/file_handle.h"
#include "rpc/channel.h"
#include "wire/nfs_status.h"

namespace slice::proxy {

// Lives on the control thread's loop.
class WriteBack {
 public:
  WriteBack(Loop& loop, rpc::Channel& channel, Tables tables, AttributeCache& cache,
            const routing::HandleCodec& handles, Metrics& metrics);

  // From now on looks at all of the cache in every `pass`, a part of it at a time. An atime alone is worth a
  // durable write only now and then; of a write told at once by the proxy as well, the authority would write
  // the same cell twice.
  static constexpr Duration kPass = std::chrono::seconds(30);
  void start(Duration pass = kPass);
  // Unsaved changes that are to be saved at once; on the loop's thread.
  void add(const slice_eviction& changes);
  // Tells everything, for a clean stop; at most `patience`.
  Task<void> finish(Duration patience);

 private:
  void round();
  void pump();
  static Task<void> tell(WriteBack& self, slice_eviction changes);
  Task<std::optional<nfs3::Status>> merge(slice_eviction changes);

  Loop& loop_;
  rpc::Channel& channel_;
  Tables tables_;
  AttributeCache& cache_;
  const routing::HandleCodec& handles_;
  Counter &merges_, &failures_, &stale_, &dropped_;
  std::deque<slice_eviction> queue_;
  std::size_t under_way_ = 0;
  unsigned rounds_ = 0;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_TABLES_WRITE_BACK_H
