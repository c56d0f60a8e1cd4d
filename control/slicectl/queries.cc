#include "control/slicectl/queries.h"

#include <algorithm>
#include <utility>

#include "routing/copies.h"
#include "service/internal_call.h"
#include "service/manager_session.h"
#include "service/managers.h"
#include "wire/coordinator.h"
#include "wire/listed_site.h"

namespace slice::slicectl {
namespace {

// Whoever is silent is not to hold up what the others tell.
constexpr Duration kSpreadPatience = std::chrono::seconds(2);

constexpr std::size_t kMaxStripes = 1 << 20;  // listed of one file

tl::unexpected<Error> no_manager(const Error& error) {
  return fail(error.code, "the manager does not answer: {}", service::why_the_manager_refuses(error));
}

Task<ProcessMetrics> ask_one(const Seams& seams, const ServerConfig& server) {
  auto result = co_await service::internal_call<wire::MetricsResult>(
      seams.channel, {server.address, server.port}, wire::kAdminProgram, wire::AdminProcedure::kMetrics,
      service::NoArguments{}, seams.timeout);
  co_return ProcessMetrics{server.name, std::move(result)};
}

class Finder {
 public:
  Finder(const Seams& seams, std::shared_ptr<const routing::RoutingTables> tables, std::string path)
      : seams_(seams), tables_(tables), names_(names_of(seams, std::move(tables))), asked_(std::move(path)) {}

  Task<Result<Where>> find() {
    if (!asked_.starts_with('/')) co_return fail(Errc::kInvalid, "'{}' is not an absolute path", asked_);
    where_.path = "/";
    take(names_.root());
    std::string_view rest = asked_;
    while (!rest.empty()) {
      std::size_t end = std::min(rest.find('/'), rest.size());
      std::string name(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (name.empty()) continue;
      if (name == "." || name == "..")
        co_return fail(Errc::kInvalid, "'{}': '.' and '..' are not resolved", asked_);
      SLICE_CO_RETURN_IF_ERROR(co_await step(name));
    }
    SLICE_CO_RETURN_IF_ERROR(co_await attributes());
    if (where_.handle.type == nfs3::FileType::kRegular) co_await parts();
    co_return std::move(where_);
  }

  // The servers that have copies of a stripe of a file that was found.
  Task<Result<std::vector<std::uint32_t>>> copies_of(const Where& where, std::uint64_t stripe) {
    wire::FileLayout layout;
    auto piece = co_await piece_of_map(where, stripe);
    if (!piece) co_return fail(std::move(piece.error()));
    layout.piece = std::move(*piece);
    co_return routing::copies_of_stripe(*tables_, layout, where.handle, stripe).all;
  }

 private:
  Task<Status> step(std::string name) {
    if (where_.handle.type != nfs3::FileType::kDirectory) {
      co_return fail(Errc::kInvalid, "{}: {}", where_.path,
                     where_.handle.type == nfs3::FileType::kSymlink ? "a symbolic link, which is not followed"
                                                                    : "not a directory");
    }
    const service::Names::Found directory{where_.bytes, where_.handle, where_.name_site};
    where_.path += (where_.path == "/" ? "" : "/") + name;
    auto found = co_await names_.look_up(directory, std::move(name), where_.path);
    if (!found) co_return fail(std::move(found.error()));
    take(*found);
    co_return Status{};
  }

  void take(const service::Names::Found& found) {
    where_.bytes = found.bytes;
    where_.handle = found.handle;
    where_.name_site = found.name_site;
  }

  Task<Status> attributes() {
    where_.name_server = names_.server_of(where_.name_site).name;
    where_.directory_server = names_.server_of(where_.handle.directory_site).name;
    auto attributes =
        co_await names_.attributes({where_.bytes, where_.handle, where_.name_site}, where_.path);
    if (!attributes) co_return fail(std::move(attributes.error()));
    where_.attributes = *attributes;
    co_return Status{};
  }

  Task<Part> part(const wire::ServerEntry& server) {
    wire::ObjectStatArgs args{{.volume = seams_.config.volume.id, .fileid = where_.handle.fileid}};
    auto stat = co_await service::internal_call<wire::ObjectStatResult>(
        seams_.channel, server.endpoint, wire::kObjectProgram, wire::ObjectProcedure::kStat, args,
        seams_.timeout);
    co_return Part{.server = server.name, .site = std::nullopt, .stripes = {}, .stat = std::move(stat)};
  }

  Task<void> parts() {
    FileId file = where_.handle.fileid;
    where_.coordinator_site = tables_->coordinator_site(file);
    where_.coordinator = tables_->server_of(wire::Role::kCoordinator, where_.coordinator_site).name;
    std::vector<const wire::ServerEntry*> nodes = tables_->servers(wire::Role::kStorage);
    std::vector<Task<Part>> asked;
    asked.reserve(nodes.size() + 1);
    for (const wire::ServerEntry* node : nodes) asked.push_back(part(*node));
    SiteId site = tables_->small_file_site(file);
    bool small = seams_.config.volume.threshold > 0 && !routing::mirrored(where_.handle);
    if (small) asked.push_back(part(tables_->server_of(wire::Role::kSmallFile, site)));
    where_.storage = co_await all(std::move(asked));
    if (small) {
      where_.small_file.emplace(std::move(where_.storage.back()));
      where_.small_file->site = site;
      where_.storage.pop_back();
    }
    co_await deal_stripes(nodes);
  }

  Task<Result<wire::MapPiece>> piece_of_map(const Where& where, std::uint64_t stripe) {
    const wire::ServerEntry& server = tables_->server_of(wire::Role::kCoordinator, where.coordinator_site);
    auto result = co_await service::internal_call<wire::MapResult>(
        seams_.channel, server.endpoint, wire::kCoordinatorProgram, wire::CoordinatorProcedure::kMap,
        wire::MapArgs{where.bytes, stripe}, seams_.timeout);
    if (!result) co_return fail(result.error(), server.name);
    if (result->status != nfs3::Status::kOk) {
      co_return fail(Errc::kUnavailable, "{} answered {}", server.name, nfs3::status_name(result->status));
    }
    co_return std::move(result->piece);
  }

  Task<void> deal_stripes(std::vector<const wire::ServerEntry*> nodes) {
    std::uint8_t shift = where_.handle.stripe_shift;
    std::uint64_t size = where_.attributes.size;
    std::uint64_t start = where_.small_file ? seams_.config.volume.threshold : 0;
    if (size <= start) co_return;
    std::uint64_t first = start >> shift;
    std::uint64_t last = (size - 1) >> shift;
    wire::FileLayout layout;
    for (std::uint64_t stripe = first; stripe <= last && stripe - first < kMaxStripes; ++stripe) {
      bool next_piece = stripe == first || stripe % wire::kStripesOfPiece == 0;
      if (routing::has_layout(where_.handle) && next_piece) {
        auto piece = co_await piece_of_map(where_, stripe);
        if (!piece) {
          where_.map_error = std::move(piece.error());
          co_return;
        }
        layout.piece = std::move(*piece);
      }
      for (std::uint32_t owner : routing::copies_of_stripe(*tables_, layout, where_.handle, stripe).all) {
        for (std::size_t i = 0; i < nodes.size(); ++i) {
          if (nodes[i]->server == owner) where_.storage[i].stripes.push_back(stripe);
        }
      }
    }
  }

  const Seams& seams_;
  std::shared_ptr<const routing::RoutingTables> tables_;
  service::Names names_;
  std::string asked_;
  Where where_;
};

// Of its manager program, or of the admin program, which its process serves as all do.
template <class R, class Procedure, class Args>
Task<Result<R>> ask_manager(const Seams& seams, Procedure procedure, Args args) {
  service::Managers managers(seams.config);
  auto result = co_await managers.call<R>(seams.channel, procedure, std::move(args), seams.timeout);
  if (!result) co_return no_manager(result.error());
  co_return result;
}

// The same where the manager may refuse.
template <class R, class Procedure, class Args>
Task<Result<R>> have_manager(const Seams& seams, Procedure procedure, Args args) {
  auto result = co_await ask_manager<R>(seams, procedure, std::move(args));
  if (result && !result->refused.empty()) co_return fail(Errc::kInvalid, "{}", result->refused);
  co_return result;
}

}  // namespace

service::Names names_of(const Seams& seams, std::shared_ptr<const routing::RoutingTables> tables) {
  return {seams.loop, seams.channel, seams.config, std::move(tables), seams.timeout};
}

Task<Result<wire::MembersResult>> ask_members(const Seams& seams) {
  return ask_manager<wire::MembersResult>(seams, wire::ManagerProcedure::kMembers, service::NoArguments{});
}

Task<Result<wire::ConfigurationResult>> ask_configuration(const Seams& seams) {
  return ask_manager<wire::ConfigurationResult>(seams, wire::ManagerProcedure::kGetConfiguration,
                                                service::NoArguments{});
}

Task<Result<std::shared_ptr<const routing::RoutingTables>>> ask_tables(const Seams& seams) {
  auto tables =
      co_await ask_manager<wire::Tables>(seams, wire::ManagerProcedure::kGetTables, service::NoArguments{});
  if (!tables) co_return fail(std::move(tables).error());
  co_return routing::RoutingTables::make(seams.config, *tables);
}

Task<Result<Settings>> ask_settings(const Seams& seams) {
  auto result = co_await ask_manager<wire::SettingsResult>(seams, wire::AdminProcedure::kGetSettings,
                                                           service::NoArguments{});
  if (!result) co_return fail(std::move(result).error());
  co_return std::move(result->settings);
}

Task<Result<wire::ReloadResult>> ask_reload(const Seams& seams) {
  return have_manager<wire::ReloadResult>(seams, wire::AdminProcedure::kReload, service::NoArguments{});
}

Task<Result<wire::ChangeQuotaResult>> ask_to_change_quota(const Seams& seams, wire::ChangeQuotaArgs args) {
  return have_manager<wire::ChangeQuotaResult>(seams, wire::ManagerProcedure::kChangeQuota, std::move(args));
}

Task<Result<wire::QuotaUsageResult>> ask_quota_usage(const Seams& seams, wire::QuotaUsageArgs args) {
  return ask_manager<wire::QuotaUsageResult>(seams, wire::ManagerProcedure::kQuotaUsage, args);
}

Task<Result<wire::ChangeTreeResult>> ask_to_change_tree(const Seams& seams, wire::ChangeTreeArgs args) {
  return have_manager<wire::ChangeTreeResult>(seams, wire::ManagerProcedure::kChangeTree, std::move(args));
}

Task<Result<wire::ChangeServerResult>> ask_change(const Seams& seams, wire::ChangeServerArgs args) {
  return have_manager<wire::ChangeServerResult>(seams, wire::ManagerProcedure::kChangeServer,
                                                std::move(args));
}

Task<Result<wire::StartMovesResult>> ask_to_move(const Seams& seams, wire::StartMovesArgs args) {
  return have_manager<wire::StartMovesResult>(seams, wire::ManagerProcedure::kMoveSites, std::move(args));
}

Task<Result<wire::HoldAddressResult>> ask_to_hold(const Seams& seams, wire::HoldAddressArgs args) {
  return have_manager<wire::HoldAddressResult>(seams, wire::ManagerProcedure::kHoldAddress, std::move(args));
}

Task<Result<wire::ShareClientsResult>> ask_for_sharers(const Seams& seams) {
  return ask_manager<wire::ShareClientsResult>(seams, wire::ManagerProcedure::kShareClients,
                                               wire::ShareClientsArgs{});
}

Task<Result<wire::MovesListResult>> ask_moves(const Seams& seams) {
  return ask_manager<wire::MovesListResult>(seams, wire::ManagerProcedure::kMoves, service::NoArguments{});
}

Task<Result<wire::BackingSetsResult>> ask_backing_sets(const Seams& seams) {
  return ask_manager<wire::BackingSetsResult>(seams, wire::ManagerProcedure::kBackingSets,
                                              service::NoArguments{});
}

Task<Result<wire::BackingAdoptResult>> ask_to_adopt(const Seams& seams, wire::BackingAdoptArgs args) {
  return have_manager<wire::BackingAdoptResult>(seams, wire::ManagerProcedure::kBackingAdopt,
                                                std::move(args));
}

Task<Result<wire::StandbysResult>> ask_standbys(const Seams& seams) {
  return ask_manager<wire::StandbysResult>(seams, wire::ManagerProcedure::kStandbys, service::NoArguments{});
}

Task<Result<wire::FailoverResult>> ask_failover(const Seams& seams, wire::FailoverArgs args) {
  return have_manager<wire::FailoverResult>(seams, wire::ManagerProcedure::kFailover, std::move(args));
}

Task<Result<wire::ChangeMovesResult>> ask_to_change_moves(const Seams& seams, wire::ChangeMovesArgs args) {
  return have_manager<wire::ChangeMovesResult>(seams, wire::ManagerProcedure::kChangeMoves, args);
}

Task<Result<wire::SpreadingResult>> ask_spread(const Seams& seams, rpc::Endpoint coordinator) {
  return service::internal_call<wire::SpreadingResult>(
      seams.channel, coordinator, wire::kCoordinatorProgram, wire::CoordinatorProcedure::kSpreading,
      service::NoArguments{}, seams.timeout, service::Managers::kRefusedPatience);
}

Task<std::vector<Spread>> ask_spreads(const Seams& given, const routing::RoutingTables& tables) {
  Seams seams = given;
  seams.timeout = std::min(given.timeout, kSpreadPatience);
  std::vector<Task<Spread>> asked;
  for (const wire::ServerEntry* each : tables.servers(wire::Role::kCoordinator)) {
    asked.push_back([](const Seams& by, std::string name, rpc::Endpoint at) -> Task<Spread> {
      co_return Spread{name, co_await ask_spread(by, at)};
    }(seams, each->name, each->endpoint));
  }
  co_return co_await all(std::move(asked));
}

Task<Result<std::vector<ProcessMetrics>>> ask_metrics(const Seams& seams, std::string name) {
  std::vector<Task<ProcessMetrics>> asked;
  for (const ServerConfig& server : seams.config.servers) {
    if (server.role == ServerRole::kRemoved) continue;
    if (name.empty() || server.name == name) asked.push_back(ask_one(seams, server));
  }
  if (asked.empty()) co_return fail(Errc::kNotFound, "no server has the name '{}'", name);
  co_return co_await all(std::move(asked));
}

Task<Result<Where>> ask_where(const Seams& seams, std::shared_ptr<const routing::RoutingTables> tables,
                              std::string path) {
  Finder finder(seams, std::move(tables), std::move(path));
  co_return co_await finder.find();
}

Task<Status> make_tree_directory(const Seams& seams, std::shared_ptr<const routing::RoutingTables> tables,
                                 const Where& above, std::string path, TreeId tree,
                                 nfs3::SetAttributes attributes) {
  attributes.size = tree.value;
  const std::string name = path.substr(path.rfind('/') + 1);
  rpc::XdrWriter arguments;
  encode_arguments(arguments, nfs3::MkdirArgs{{above.bytes, name}, attributes});
  service::Names names = names_of(seams, std::move(tables));
  co_return co_await names.ask<nfs3::CreatedOk>(nfs3::Procedure::kMkdir, arguments.take(), std::move(path),
                                                [](const auto&) {});
}

Task<Status> remove_tree_directory(const Seams& seams, std::shared_ptr<const routing::RoutingTables> tables,
                                   const Where& above, std::string path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  rpc::XdrWriter arguments;
  encode_arguments(arguments, nfs3::RmdirArgs{above.bytes, name});
  service::Names names = names_of(seams, std::move(tables));
  co_return co_await names.ask<nfs3::WccData>(nfs3::Procedure::kRmdir, arguments.take(), std::move(path),
                                              [](const auto&) {});
}

Task<Result<PolicyInForce>> ask_policy(const Seams& seams,
                                       std::shared_ptr<const routing::RoutingTables> tables, std::string path,
                                       PolicyChange change) {
  Finder finder(seams, tables, std::move(path));
  auto where = co_await finder.find();
  if (!where) co_return fail(std::move(where.error()));
  if (change.inherit && where->path != "/") {
    std::string parent = where->path.substr(0, std::max<std::size_t>(where->path.rfind('/'), 1));
    auto inherited = co_await ask_policy(seams, tables, parent, {});
    if (!inherited) co_return fail(std::move(inherited.error()));
    change.policy = inherited->policy;
  }
  const wire::ServerEntry& server = tables->server_of(wire::Role::kDirectory, where->handle.directory_site);
  auto result = co_await service::internal_call<wire::PolicyResult>(
      seams.channel, server.endpoint, wire::kAuthorityProgram, wire::AuthorityProcedure::kPolicy,
      wire::PolicyArgs{where->bytes, change.fields, change.policy, change.fewer_copies}, seams.timeout);
  if (!result) co_return fail(result.error(), server.name);
  switch (result->status) {
    case nfs3::Status::kOk:
    case nfs3::Status::kPerm:
      co_return PolicyInForce{result->policy, result->status == nfs3::Status::kPerm};
    case nfs3::Status::kNotDir:
      co_return fail(Errc::kInvalid, "{}: not a directory", where->path);
    case nfs3::Status::kInval:
      co_return fail(
          Errc::kInvalid,
          "a stripe unit is a power of two from 8KiB to 1GiB; copies are at most {}, each on a storage "
          "node of its own",
          kMaxCopies);
    default:
      co_return fail(Errc::kUnavailable, "{} answered {}", server.name, nfs3::status_name(result->status));
  }
}

Task<Status> ask_move(const Seams& seams, std::shared_ptr<const routing::RoutingTables> tables,
                      std::string path, std::uint64_t stripe, std::string to) {
  constexpr Duration kMoveTimeout = std::chrono::seconds(60);
  Finder finder(seams, tables, std::move(path));
  auto where = co_await finder.find();
  if (!where) co_return fail(std::move(where.error()));
  bool regular = where->handle.type == nfs3::FileType::kRegular;
  if (!regular || !routing::has_layout(where->handle)) {
    co_return fail(Errc::kInvalid,
                   "{}: no block-mapped or mirrored file (slicectl policy set --placement, --copies)",
                   where->path);
  }
  const auto nodes = tables->servers(wire::Role::kStorage);
  const auto node = std::find_if(nodes.begin(), nodes.end(),
                                 [&](const wire::ServerEntry* each) { return each->name == to; });
  if (node == nodes.end()) co_return fail(Errc::kInvalid, "no storage server has the name '{}'", to);
  auto copies = co_await finder.copies_of(*where, stripe);
  if (!copies) co_return fail(std::move(copies.error()));
  if (routing::has(*copies, (*node)->server)) co_return Status{};
  // Its other copies stay where they are.
  copies->insert(copies->begin(), (*node)->server);
  if (copies->size() > routing::copies_of(where->handle)) copies->pop_back();
  const wire::ServerEntry& server = tables->server_of(wire::Role::kCoordinator, where->coordinator_site);
  auto result = co_await service::internal_call<wire::CoordinatorResult>(
      seams.channel, server.endpoint, wire::kCoordinatorProgram, wire::CoordinatorProcedure::kMove,
      wire::MoveArgs{where->bytes, stripe, wire::listed_site(*copies)}, kMoveTimeout);
  if (!result) co_return fail(result.error(), server.name);
  switch (result->status) {
    case nfs3::Status::kOk:
      co_return Status{};
    case nfs3::Status::kJukebox:
      co_return fail(
          Errc::kUnavailable,
          "{}: stripe {} stays where it is for now: a server is away, or another stripe of the file is "
          "being moved",
          where->path, stripe);
    default:
      co_return fail(Errc::kUnavailable, "{} answered {}", server.name, nfs3::status_name(result->status));
  }
}

}  // namespace slice::slicectl
