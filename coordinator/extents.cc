#include "coordinator/extents.h"

#include <algorithm>

namespace slice::coordinator {

Task<std::optional<Extent>> Extents::of(routing::FileHandle handle,
                                        std::function<bool(std::uint32_t)> without) {
  Extent extent;
  for (std::uint32_t node : routing::storage_servers(*context_.tables.get(), handle)) {
    if (without(node)) continue;
    // COMMIT, which tells the epoch also of an object without bytes.
    auto part = co_await ask_object<wire::ObjectCommitResult>(
        context_, gate_, handle.fileid, node, wire::ObjectProcedure::kCommit,
        wire::ObjectCommitArgs{object_of(context_, handle.fileid), context_.verifier.largest()});
    if (!part || part->status != nfs3::Status::kOk) co_return std::nullopt;
    context_.verifier.see(part->verifier);
    extent.end = std::max(extent.end, part->end);
    extent.epoch = std::max(extent.epoch, part->epoch);
  }
  co_return extent;
}

}  // namespace slice::coordinator
