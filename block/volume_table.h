// VolumeTable: the raw volumes that this process serves, and those of them that it has open. One loop.
#ifndef SLICE_BLOCK_VOLUME_TABLE_H
#define SLICE_BLOCK_VOLUME_TABLE_H

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "block/data_path.h"
#include "block/device.h"
#include "block/open_volume.h"
#include "block/raw_volumes.h"

namespace slice::block {

class VolumeTable : public Devices {
 public:
  struct Options {
    std::vector<std::string> only;  // these; none: all that there are
    Duration patience =
        Duration(0);         // how long a server is waited for before an operation fails; 0: for ever
    std::uint64_t seed = 0;  // random
  };
  // All that is referred to outlives it; `path` has started.
  VolumeTable(Loop& loop, const EnsembleConfig& config, DataPath& path, Metrics& metrics, Options options);

  std::vector<std::string> names() const override { return names_; }
  // kStale: it was open here, and was opened elsewhere since. It is not taken back: two hosts would go on to
  // take it from each other. forgive() says that it may be.
  Task<Result<std::shared_ptr<Device>>> open(std::string name) override;
  void forgive() { lost_.clear(); }

  // What is acknowledged of all open ones is durable then. The first that failed.
  Task<Status> flush_all();

 private:
  service::Names ask() const;
  Task<Result<std::shared_ptr<Device>>> open_anew(std::string name);
  Task<void> keep_listing();

  Loop& loop_;
  const EnsembleConfig& config_;
  DataPath& path_;
  const Options options_;
  OpenVolume::Figures figures_;
  Counter &opened_, &open_;
  std::vector<std::string> names_;
  std::map<std::string, std::weak_ptr<OpenVolume>> volumes_;
  std::set<std::string> lost_;
  AsyncMutex opening_;
  std::uint32_t next_client_ = 0;
};

}  // namespace slice::block

#endif  // SLICE_BLOCK_VOLUME_TABLE_H
