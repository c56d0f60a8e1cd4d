#include "coordinator/stopped_layouts.h"

#include <utility>

#include "coordinator/block_maps.h"
#include "coordinator/intentions.h"
#include "storage/log_copy.h"
#include "storage/rocks_store.h"

namespace slice::coordinator {
namespace {

constexpr std::uint64_t kCacheBytes = 8 << 20;

}  // namespace

Task<Result<std::unique_ptr<StoppedLayouts>>> StoppedLayouts::open(Loop& loop, const std::string& folder,
                                                                   const routing::HandleCodec& handles) {
  auto stopped = std::make_unique<StoppedLayouts>();
  auto maps = storage::open_rocks_read_only({.folder = folder + "/maps", .cache_bytes = kCacheBytes});
  if (!maps) co_return fail(maps.error(), "block maps");
  stopped->maps_ = std::move(*maps);
  auto copy = storage::LogCopy::make(loop, folder, "intentions");
  if (!copy) co_return fail(std::move(copy).error());
  OpenIntentions open;
  Metrics metrics;
  auto log = co_await storage::Log::open(loop, (*copy)->disk(), metrics, {.folder = "intentions"},
                                         [&open](storage::LogSequence sequence, ByteView record) {
                                           return replay_record(open, sequence, record);
                                         });
  if (!log) co_return fail(log.error(), "intention log");
  for (const auto& [sequence, intention] : open) {
    auto handle = handles.open(intention.handle);
    if (handle) stopped->owed_[handle->fileid].push_back(intention);
  }
  co_return stopped;
}

Result<wire::MapPiece> StoppedLayouts::piece(FileId file, std::uint64_t number) const {
  return stored_piece(*maps_, file, number);
}

const std::vector<Intention>* StoppedLayouts::owed(FileId file) const {
  auto found = owed_.find(file);
  return found == owed_.end() ? nullptr : &found->second;
}

}  // namespace slice::coordinator
