#include "tests/sim/logged_memory.h"

#include <utility>

#include "storage/checkpoint_format.h"

namespace slice::sim {

using namespace storage;

Task<Result<std::unique_ptr<LoggedMemory>>> LoggedMemory::open(Loop& loop, Disk& disk, Metrics& metrics,
                                                               std::uint64_t run) {
  std::unique_ptr<LoggedMemory> store(new LoggedMemory(loop, run));
  auto log = co_await Log::open(loop, disk, metrics, {.folder = "store.log"},
                                [&store](LogSequence, ByteView record) -> Status {
                                  auto batch = checkpoint_format::decode_batch(record);
                                  if (!batch) return fail(Errc::kCorrupt, "a batch that does not decode");
                                  auto applied = store->memory_.apply(batch->changes);
                                  return applied ? Status{} : fail(applied.error());
                                });
  if (!log) co_return fail(std::move(log).error());
  store->log_ = std::move(*log);
  co_return store;
}

Result<LogPosition> LoggedMemory::apply(const WriteBatch& batch) {
  if (batch.empty()) return LogPosition{log_->last().value};
  auto sequence = log_->append(checkpoint_format::encode_batch(run_, batch).view());
  if (!sequence) return fail(std::move(sequence).error());
  if (auto applied = memory_.apply(batch); !applied) return fail(std::move(applied).error());
  return LogPosition{sequence->value};
}

}  // namespace slice::sim
