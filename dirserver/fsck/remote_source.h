// RemoteSource: the cells as the running directory servers tell them (wire/scan.h).
#ifndef SLICE_DIRSERVER_FSCK_REMOTE_SOURCE_H
#define SLICE_DIRSERVER_FSCK_REMOTE_SOURCE_H

#include <memory>

#include "common/config.h"
#include "common/loop.h"
#include "dirserver/fsck/source.h"
#include "routing/tables.h"
#include "rpc/channel.h"

namespace slice::dirserver::fsck {

class RemoteSource : public CellSource {
 public:
  struct Seams {
    Loop& loop;
    rpc::Channel& channel;  // its calls are sealed with the ensemble's key
    const EnsembleConfig& config;
    Duration timeout = std::chrono::seconds(5);  // of one question
  };
  // Starts with the configuration's tables.
  explicit RemoteSource(const Seams& seams);
  // Takes the manager's tables; where it does not answer, those at hand stay, and the error says why.
  Task<Status> take_tables();

  const std::shared_ptr<const routing::RoutingTables>& tables() const { return tables_; }

  // Asks again with fresh tables while a site is on its way to another server.
  Task<Result<wire::ScanResult>> scan(wire::ScanArgs args) override;
  bool live() const override { return true; }
  std::uint32_t sites() const override {
    return seams_.config.site_counts[static_cast<std::size_t>(ServerRole::kDirectory)];
  }

 private:
  Seams seams_;
  std::shared_ptr<const routing::RoutingTables> tables_;
};

}  // namespace slice::dirserver::fsck

#endif  // SLICE_DIRSERVER_FSCK_REMOTE_SOURCE_H
