// What slicectl asks the ensemble: the manager for members and tables, every process for its metrics, and,
// for one path, the directory servers and data servers for where its name and bytes are. Knows no output
// format.
#ifndef SLICE_CONTROL_SLICECTL_QUERIES_H
#define SLICE_CONTROL_SLICECTL_QUERIES_H

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/config.h"
#include "common/loop.h"
#include "routing/file_handle.h"
#include "routing/tables.h"
#include "rpc/channel.h"
#include "service/names.h"
#include "wire/address.h"
#include "wire/admin.h"
#include "wire/authority.h"
#include "wire/backing.h"
#include "wire/configuration.h"
#include "wire/failover.h"
#include "wire/layout.h"
#include "wire/moves.h"
#include "wire/object.h"
#include "wire/quota.h"
#include "wire/settings.h"
#include "wire/share.h"
#include "wire/trees.h"

namespace slice::slicectl {

// Between two looks at what a command waits for.
inline constexpr Duration kLookPause = std::chrono::milliseconds(200);

struct Seams {
  Loop& loop;
  rpc::Channel& channel;  // its calls are sealed with the ensemble's key
  const EnsembleConfig& config;
  Duration timeout = std::chrono::seconds(5);  // of one question
};

Task<Result<wire::MembersResult>> ask_members(const Seams& seams);
Task<Result<std::shared_ptr<const routing::RoutingTables>>> ask_tables(const Seams& seams);

// The manager's file, for a host that is to become one of the ensemble's.
Task<Result<wire::ConfigurationResult>> ask_configuration(const Seams& seams);

// The settings in force, as the manager has them.
Task<Result<Settings>> ask_settings(const Seams& seams);
// Has the manager read its file again. What it refuses is an error, kInvalid.
Task<Result<wire::ReloadResult>> ask_reload(const Seams& seams);

// What the manager refuses of these is an error, kInvalid. Changes of the members (wire::ChangeServerArgs):
Task<Result<wire::ChangeServerResult>> ask_change(const Seams& seams, wire::ChangeServerArgs args);
// And moves of sites:
Task<Result<wire::StartMovesResult>> ask_to_move(const Seams& seams, wire::StartMovesArgs args);
Task<Result<wire::MovesListResult>> ask_moves(const Seams& seams);
// Which proxy has the virtual address, or is to have it (wire/address.h).
Task<Result<wire::HoldAddressResult>> ask_to_hold(const Seams& seams, wire::HoldAddressArgs args);
Task<Result<wire::ShareClientsResult>> ask_for_sharers(const Seams& seams);
Task<Result<wire::ChangeMovesResult>> ask_to_change_moves(const Seams& seams, wire::ChangeMovesArgs args);

// What the manager knows of backing sets, by server.
Task<Result<wire::BackingSetsResult>> ask_backing_sets(const Seams& seams);
// Runs of servers that stand by, by server and endpoint.
Task<Result<wire::StandbysResult>> ask_standbys(const Seams& seams);
// Has the manager take the set for one of these members. What it refuses is an error, kInvalid.
Task<Result<wire::BackingAdoptResult>> ask_to_adopt(const Seams& seams, wire::BackingAdoptArgs args);
// Has a server served by one of them; likewise.
Task<Result<wire::FailoverResult>> ask_failover(const Seams& seams, wire::FailoverArgs args);

// Changes a quota; likewise. And what those have who have one, or one of them.
Task<Result<wire::ChangeQuotaResult>> ask_to_change_quota(const Seams& seams, wire::ChangeQuotaArgs args);
Task<Result<wire::QuotaUsageResult>> ask_quota_usage(const Seams& seams, wire::QuotaUsageArgs args);

// Notes or forgets a tree; likewise.
Task<Result<wire::ChangeTreeResult>> ask_to_change_tree(const Seams& seams, wire::ChangeTreeArgs args);

// How far a coordinator is with evening out files that have a layout.
struct Spread {
  std::string coordinator;
  // kInvalid: it is of a version that cannot tell. Others: it does not answer.
  Result<wire::SpreadingResult> state;
};
// Of all coordinators at once; in the order of the tables.
Task<std::vector<Spread>> ask_spreads(const Seams& seams, const routing::RoutingTables& tables);
// Of one.
Task<Result<wire::SpreadingResult>> ask_spread(const Seams& seams, rpc::Endpoint coordinator);

struct ProcessMetrics {
  std::string name;
  Result<wire::MetricsResult> metrics;
};
// Of one server, or of all where `name` is empty. kNotFound: no such server.
Task<Result<std::vector<ProcessMetrics>>> ask_metrics(const Seams& seams, std::string name);

// What one data server holds of a file.
struct Part {
  std::string server;
  std::optional<SiteId> site;          // of the small-file class
  std::vector<std::uint64_t> stripes;  // storage: indexes of those stripes below the file's size that it owns
  Result<wire::ObjectStatResult> stat;  // kNoEnt inside: it holds nothing
};
struct Where {
  std::string path;
  routing::HandleBytes bytes{};
  routing::FileHandle handle;
  nfs3::Attributes attributes;
  SiteId name_site;  // directory site that the name was looked up at; the root: its own
  std::string name_server;
  std::string directory_server;  // of the attribute cell
  // Regular files only:
  SiteId coordinator_site;
  std::string coordinator;
  std::optional<Part> small_file;  // nothing where the threshold is 0, and of a mirrored file
  std::vector<Part> storage;       // every storage server that holds sites
  std::optional<Error>
      map_error;  // why it is not known which stripes these have: the block map cannot be had
};
// Resolves `path` (absolute within the volume) by NFS LOOKUPs as the superuser, straight at the directory
// servers, and asks the data servers. Symbolic links are not followed. kNotFound, kInvalid ("a is not a
// directory"), kUnavailable. Data servers that do not answer have an error in their Part.
// For what else there is to ask about names.
service::Names names_of(const Seams& seams, std::shared_ptr<const routing::RoutingTables> tables);
Task<Result<Where>> ask_where(const Seams& seams, std::shared_ptr<const routing::RoutingTables> tables,
                              std::string path);

// Makes the directory of a tree, `path`, in the one above it, and takes it out. kExists: it is there already;
// kInvalid: it is not empty; kUnavailable, kIo.
Task<Status> make_tree_directory(const Seams& seams, std::shared_ptr<const routing::RoutingTables> tables,
                                 const Where& above, std::string path, TreeId tree,
                                 nfs3::SetAttributes attributes);
Task<Status> remove_tree_directory(const Seams& seams, std::shared_ptr<const routing::RoutingTables> tables,
                                   const Where& above, std::string path);

// What a directory says of new files in it. Errors as ask_where().
struct PolicyChange {
  std::uint32_t fields = 0;   // wire::PolicyField: what changes; 0: nothing
  wire::FilePolicy policy;    // to what
  bool inherit = false;       // `fields` to what a new directory in its place would have, instead
  bool fewer_copies = false;  // even where new files have fewer copies then
};
struct PolicyInForce {
  wire::FilePolicy policy;
  bool refused = false;  // nothing was changed: new files would have had fewer copies
};
// Makes the change first.
Task<Result<PolicyInForce>> ask_policy(const Seams& seams,
                                       std::shared_ptr<const routing::RoutingTables> tables, std::string path,
                                       PolicyChange change);

// Moves a stripe of a block-mapped file to a storage server, and waits until it is there. As ask_where();
// also kInvalid: no block-mapped file, no storage server of this name.
Task<Status> ask_move(const Seams& seams, std::shared_ptr<const routing::RoutingTables> tables,
                      std::string path, std::uint64_t stripe, std::string to);

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_QUERIES_H
