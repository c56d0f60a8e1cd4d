// FileStore: the state of an ensemble's only manager, in files of its data directory, which nobody else
// changes: it always leads. Each is replaced whole (storage/durable_file.h). One loop.
#ifndef SLICE_CONTROL_MANAGER_FILE_STORE_H
#define SLICE_CONTROL_MANAGER_FILE_STORE_H

#include <string>

#include "control/manager/state_store.h"
#include "storage/disk.h"

namespace slice::manager {

class FileStore : public StateStore {
 public:
  // `disk` outlives it; `self` is the manager's name.
  explicit FileStore(storage::Disk& disk, std::string self = "") : disk_(disk), self_(std::move(self)) {}

  Task<Result<Buffer>> read(std::string name) override;
  Task<Status> replace(std::string name, Buffer contents) override;
  void stand(Hooks hooks) override { hooks.begun(); }
  bool leads() const override { return true; }
  Task<void> resign(Duration /*pause*/) override { co_return; }
  std::string leader() const override { return self_; }

 private:
  storage::Disk& disk_;
  const std::string self_;
};

}  // namespace slice::manager

#endif  // SLICE_CONTROL_MANAGER_FILE_STORE_H
