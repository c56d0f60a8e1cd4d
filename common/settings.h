// Settings: what of the configuration changes while everything serves (docs/configuration.md, "Reloading").
// The manager reads its file again and publishes them to all; what a process's own file says of them counts
// until it has some of the manager's.
#ifndef SLICE_COMMON_SETTINGS_H
#define SLICE_COMMON_SETTINGS_H

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "common/config.h"
#include "common/quota.h"

namespace slice {

// A directory that was made to be one, with all that is below it (docs/trees.md): it has exports and a quota
// of its own, if it is to.
struct Tree {
  std::string path;  // where it was made, as slicectl names paths
  TreeId above;      // that the directory's parent is in
  bool operator==(const Tree&) const = default;
};
inline constexpr std::size_t kMaxTrees = 4096;
// Of the raw volumes (docs/raw-volumes.md): nobody notes it at the manager, so no export is for it.
inline constexpr TreeId kTreeOfVolumes{0xffff};
using Trees = std::map<TreeId, Tree>;

struct Settings {
  SettingsGeneration generation;  // 0: those of a file, which no manager has published
  std::string export_path = "/";
  std::vector<ExportConfig> exports;       // first that fits a client counts; none fits: refused
  std::uint32_t copies = 1;                // of each byte of a new file, unless its directory says otherwise
  Placement placement = Placement::kHash;  // likewise
  LogLevel log_level = LogLevel::kInfo;
  std::uint32_t slow_operation_ms = 0;  // from when on an operation is logged; 0: none is
  // How long a server with a backing set is silent before it is served elsewhere; 0: for ever.
  std::uint32_t failover_ms = kDefaultFailoverMs;
  ClientLimits limits;
  std::map<std::string, std::uint64_t, std::less<>> reserves;  // ServerConfig::reserve_bytes by name
  Quotas quotas;  // of no file: slicectl quota sets them, and a reload leaves them
  Trees trees;    // likewise, by slicectl tree

  // Whether some export is of this path.
  bool has_export_of(std::string_view path) const;
  // The path whose exports count for what is in a tree: its own, where there are some of it, else that of the
  // tree above. Null for a tree that there is not. Valid as long as these settings, as all of these.
  const std::string* exported_as(TreeId tree) const;
  // What a client of that address is given in a tree: the first of these that fits; null where none does.
  const ExportConfig* export_for(TreeId tree, IpAddress address) const;
  // The first of any path that fits: null for who may not come in anywhere.
  const ExportConfig* any_export_for(IpAddress address) const;
  // By its path; null: there is none.
  const Trees::value_type* tree_at(std::string_view path) const;
  // Paths that exports name and that are no trees': nobody is given anything by these.
  std::vector<std::string> exports_of_no_tree() const;
  // Bytes of free space below which this server takes no changes.
  std::uint64_t reserve_of(const ServerConfig& server) const;
  bool operator==(const Settings&) const = default;
};

// Those of a file, generation 0.
Settings settings_of(const EnsembleConfig& config);
// Keys, as files name them ("[[export]]", "[volume] copies"), of which these settings differ, whatever their
// generations; none: they are the same.
std::vector<std::string> differences(const Settings& a, const Settings& b);
// Keys of which a file read again differs from what a process runs with, and which no reload changes: it has
// to be started anew, or they are for good. Of servers their roles count, of the manager its address, and of
// those in `own`, which are this process's, what is their host's own as well.
std::vector<std::string> fixed_differences(const EnsembleConfig& running, const EnsembleConfig& read,
                                           const std::vector<std::string>& own);

// The settings in force in one server. All of it on any thread, but for set() and watch(), which one thread
// calls.
class LiveSettings {
 public:
  explicit LiveSettings(Settings first) : current_(std::make_shared<const Settings>(std::move(first))) {}
  LiveSettings(const LiveSettings&) = delete;
  LiveSettings& operator=(const LiveSettings&) = delete;

  std::shared_ptr<const Settings> get() const;
  // Grows with every set().
  std::uint64_t version() const { return version_.load(std::memory_order_acquire); }
  void set(Settings next);
  // `watcher` is called at the end of every later set(), on its thread; there is one at most, nullptr takes
  // it away.
  void watch(std::function<void(const Settings&)> watcher) { watcher_ = std::move(watcher); }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Settings> current_;
  std::atomic<std::uint64_t> version_{1};
  std::function<void(const Settings&)> watcher_;
};

// One thread's way to them that costs a load where nothing has changed.
class SettingsReader {
 public:
  // `live` outlives it.
  explicit SettingsReader(const LiveSettings& live) : live_(live) {}
  // Valid until the next call.
  const Settings& now() const {
    if (const std::uint64_t version = live_.version(); version != seen_) {
      kept_ = live_.get();
      seen_ = version;
    }
    return *kept_;
  }

 private:
  const LiveSettings& live_;
  mutable std::shared_ptr<const Settings> kept_;
  mutable std::uint64_t seen_ = 0;
};

}  // namespace slice

#endif  // SLICE_COMMON_SETTINGS_H
