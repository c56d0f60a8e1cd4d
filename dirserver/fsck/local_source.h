// LocalSource: the cells in the stores of directory servers that are stopped.
#ifndef SLICE_DIRSERVER_FSCK_LOCAL_SOURCE_H
#define SLICE_DIRSERVER_FSCK_LOCAL_SOURCE_H

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/config.h"
#include "dirserver/fsck/finding.h"
#include "dirserver/fsck/source.h"
#include "service/data_directory.h"
#include "storage/kv_store.h"

namespace slice::dirserver::fsck {

class LocalSource : public CellSource {
 public:
  // One server's store, by the server's name. The claim, where there is one, keeps its server from starting.
  struct Store {
    std::string server;
    std::unique_ptr<storage::KvStore> cells;
    std::optional<service::DataDirectory> claim;
    std::uint64_t disk_bytes = 0;
    // By the server's record (service/ownership.h); none: it has none, and its cells tell which it has.
    std::optional<std::set<std::uint32_t>> sites = {};
    std::set<std::uint32_t> offered = {};  // by moves of which it may not have been told that they are done
  };
  // Opens the store of every directory server, for reading alone. `folders`: data directories, by server,
  // that lie elsewhere than the configuration says. kExists: a server is running. kNotFound: no such data
  // directory on this host. kInvalid: another volume's or policy's.
  static Result<std::unique_ptr<LocalSource>> open(const EnsembleConfig& config,
                                                   const std::map<std::string, std::string>& folders);
  // A site is read from the store whose record has it; without records, from the one that has cells of it.
  LocalSource(std::vector<Store> stores, std::uint32_t sites);

  Task<Result<wire::ScanResult>> scan(wire::ScanArgs args) override;
  bool live() const override { return false; }
  std::uint32_t sites() const override { return static_cast<std::uint32_t>(store_of_.size()); }

  // Sites that two servers have, or have cells of and no record (the later one's are not checked).
  const std::vector<Finding>& conflicts() const { return conflicts_; }
  std::uint64_t disk_bytes() const;

 private:
  // Whether the store's server has the site, or may have it where nobody else does.
  enum class Has { kNo, kMaybe, kYes };
  static Has has(const Store& store, SiteId site);

  std::vector<Store> stores_;
  std::vector<std::size_t> store_of_;  // by site
  std::vector<Finding> conflicts_;
};

}  // namespace slice::dirserver::fsck

#endif  // SLICE_DIRSERVER_FSCK_LOCAL_SOURCE_H
