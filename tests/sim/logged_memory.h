// LoggedMemory: a KvStore of a simulation whose durability lies on a Disk that may be far away, as that of
// storage::LoggedStore does: every batch in one log there, in the same format. What is read is in memory, so
// that a run is the same each time; there are no checkpoints, and each start reads the whole log.
#ifndef SLICE_TESTS_SIM_LOGGED_MEMORY_H
#define SLICE_TESTS_SIM_LOGGED_MEMORY_H

#include <memory>

#include "storage/log.h"
#include "storage/memory_store.h"

namespace slice::sim {

class LoggedMemory : public storage::KvStore {
 public:
  // `run`: another number each time. All of it outlives the store.
  static Task<Result<std::unique_ptr<LoggedMemory>>> open(Loop& loop, storage::Disk& disk, Metrics& metrics,
                                                          std::uint64_t run);

  Result<std::optional<std::string>> get(std::string_view key) const override { return memory_.get(key); }
  std::unique_ptr<storage::KvIterator> iterate(std::string_view begin, std::string_view end) const override {
    return memory_.iterate(begin, end);
  }
  std::unique_ptr<storage::KvReader> snapshot() const override { return memory_.snapshot(); }
  Result<storage::LogPosition> apply(const storage::WriteBatch& batch) override;
  Task<Status> durable(storage::LogPosition position) override { return log_->sync({position.value}); }
  storage::LogPosition durable_position() const override { return {log_->durable().value}; }

 private:
  LoggedMemory(Loop& loop, std::uint64_t run) : run_(run), memory_(loop, medium_) {}

  const std::uint64_t run_;
  storage::MemoryMedium medium_;
  storage::MemoryStore memory_;
  std::unique_ptr<storage::Log> log_;
};

}  // namespace slice::sim

#endif  // SLICE_TESTS_SIM_LOGGED_MEMORY_H
