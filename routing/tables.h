// RoutingTables: which server has which site, and which site has which request: the C++ face of
// bpf/shared/routing.h for servers and tools. Tables are hints (docs/architecture.md): immutable, swapped
// whole by TableHolder.
#ifndef SLICE_ROUTING_TABLES_H
#define SLICE_ROUTING_TABLES_H

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "common/config.h"
#include "common/ids.h"
#include "rpc/endpoint.h"
#include "wire/manager.h"

namespace slice::routing {

class RoutingTables {
 public:
  // Checks that every site names a server and counts are powers of two: kInvalid.
  static Result<std::shared_ptr<const RoutingTables>> make(const EnsembleConfig& config,
                                                           const wire::Tables& tables);
  // Generation 0: sites dealt in turn over the servers of their role, as the configuration lists them.
  static wire::Tables initial(const EnsembleConfig& config);

  Generation generation() const { return tables_.generation; }
  const wire::Tables& wire() const { return tables_; }

  SiteId small_file_site(FileId file) const;
  SiteId coordinator_site(FileId file) const;
  // Of the stripe that holds `offset`.
  SiteId storage_site(FileId file, std::uint64_t offset, std::uint8_t stripe_shift) const;
  std::uint64_t name_hash(FileId parent, std::string_view name) const;  // by the volume's hash
  SiteId name_site(std::uint64_t hash) const;                           // of the directory class
  // mkdir switching: whether a MKDIR with this hash goes elsewhere than its parent's site (then: to
  // name_site(hash)).
  bool mkdir_redirected(std::uint64_t hash) const;

  const wire::ServerEntry& server_of(wire::Role site_class, SiteId site) const;
  // The distinct servers of a class that hold sites, by index.
  std::vector<const wire::ServerEntry*> servers(wire::Role role) const;
  bool owns(std::uint32_t server, wire::Role site_class, SiteId site) const;

 private:
  RoutingTables() = default;
  wire::Tables tables_;
  VolumeConfig volume_;
  std::array<std::uint8_t, 16> name_key_{};
};

// The process's current tables. get() and set() on the loop's thread.
class TableHolder {
 public:
  explicit TableHolder(std::shared_ptr<const RoutingTables> tables) : tables_(std::move(tables)) {}
  const std::shared_ptr<const RoutingTables>& get() const { return tables_; }
  void set(std::shared_ptr<const RoutingTables> tables) { tables_ = std::move(tables); }

 private:
  std::shared_ptr<const RoutingTables> tables_;
};

}  // namespace slice::routing

#endif  // SLICE_ROUTING_TABLES_H
