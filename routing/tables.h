// RoutingTables: which server has which site, and which site has which request: the C++ face of
// bpf/shared/routing.h for servers and tools. Tables are hints (docs/architecture.md): immutable, swapped
// whole by TableHolder.
#ifndef SLICE_ROUTING_TABLES_H
#define SLICE_ROUTING_TABLES_H

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "bpf/shared/map_abi.h"
#include "common/config.h"
#include "common/ids.h"
#include "rpc/endpoint.h"
#include "wire/manager.h"

namespace slice::routing {

// The distinct owners of `site` and of the sites behind it, in that order, `count` of them at most: those
// that have copies of what is on a storage site. `owner_of(site)`: an optional; none where a site has no
// owner.
template <class OwnerOf>
auto owners_from(std::uint32_t site, std::uint32_t mask, std::uint32_t count, const OwnerOf& owner_of) {
  std::vector<typename decltype(owner_of(site))::value_type> found;
  for (std::uint32_t step = 0; step <= mask && found.size() < count; ++step) {
    auto owner = owner_of((site + step) & mask);
    if (owner && std::find(found.begin(), found.end(), *owner) == found.end()) found.push_back(*owner);
  }
  return found;
}

struct Route {
  wire::Role site_class = wire::Role::kDirectory;
  SiteId site;
};

// Immutable, thread-safe.
class RoutingTables {
 public:
  // Checks that every site names a server of its class, that the numbers of sites are the configuration's,
  // and that servers stand where the configuration has them (either may have more of them): kInvalid.
  static Result<std::shared_ptr<const RoutingTables>> make(const EnsembleConfig& config,
                                                           const wire::Tables& tables);
  // Generation 0: sites dealt over the servers of their role (routing/deal.h), as the configuration lists
  // them.
  static wire::Tables initial(const EnsembleConfig& config);

  Generation generation() const { return tables_.generation; }
  const wire::Tables& wire() const { return tables_; }

  SiteId small_file_site(FileId file) const;
  SiteId coordinator_site(FileId file) const;
  // Of the stripe that holds `offset`.
  SiteId storage_site(FileId file, std::uint64_t offset, std::uint8_t stripe_shift) const;
  // By the volume's hash; at most nfs3::kMaxName bytes of the name count.
  std::uint64_t name_hash(FileId parent, std::string_view name) const;
  // The directory site of `procedure` on a name with this hash in a directory of site `directory`: under
  // name hashing the name's, else the directory's, but of a MKDIR that mkdir switching redirects.
  SiteId name_site(nfs3::Procedure procedure, SiteId directory, std::uint64_t hash) const;

  // place_of() (routing/place.h) of the call with these arguments (all of them). Nothing for NULL, and for
  // arguments that the core cannot read.
  std::optional<Route> place_of(nfs3::Procedure procedure, ByteView arguments,
                                std::optional<std::uint64_t> size = std::nullopt) const;

  // A site beyond the class's number of sites is taken modulo that number.
  const wire::ServerEntry& server_of(wire::Role site_class, SiteId site) const;
  // By index in the configuration; nothing where the tables know no such server.
  const wire::ServerEntry* server(std::uint32_t index) const;
  // Whether a server had this number that is no member any more.
  bool removed(std::uint32_t index) const;
  // The same of one that was declared lost, a member still or no more; and whether it is one of the two.
  bool lost(std::uint32_t index) const;
  bool gone(std::uint32_t index) const { return removed(index) || lost(index); }
  // The distinct servers of a class that hold sites, be it for files with a layout alone, and storage servers
  // that may have stripes of such without any site (wire::ServerEntry::started), by index; for a role without
  // sites: all of the role.
  std::vector<const wire::ServerEntry*> servers(wire::Role role) const;
  // The storage servers that may have stripes of files with a layout, in order: those that have sites for
  // such, and those that came later.
  const std::vector<std::uint32_t>& layout_servers() const { return layout_servers_; }
  // By site: the server that has it for files with a layout, or had it, if it was removed since.
  const std::vector<std::uint32_t>& layout_sites() const;
  // The distinct servers that have copies of what files with a layout have on a storage site: its own, then
  // those of the sites behind it, without those that were removed; `copies` of them at most. All that there
  // are where the class has fewer. Of a listed site (wire/listed_site.h): those that it lists, known here or
  // not.
  std::vector<std::uint32_t> copies_of(SiteId site, std::uint32_t copies) const;
  // Whether one of the servers of the site for so many copies is drained, or was removed: nothing new of
  // files with a layout is to come there, and what is there goes (docs/block-maps.md).
  bool is_left(SiteId site, std::uint32_t copies) const;
  // Whether there is such a server at all.
  bool some_are_left() const { return some_are_left_; }
  // Whether a storage server that is in use has no site for files with a layout, since it came later: what
  // goes by storage sites does without it.
  bool some_came_later() const { return some_came_later_; }
  // Whether all mirrored files that are placed by hash lie where the present sites say.
  bool mirrored_go_by_hash() const {
    return !some_are_left_ && !some_came_later_ && tables_.layout_sites.empty();
  }
  // Of a site beyond the class's number of sites nobody is the owner.
  bool owns(std::uint32_t server, wire::Role site_class, SiteId site) const;
  // What the routing core is configured with; flags, now_ms and other fields of the proxy's own are zero.
  const slice_config& core() const { return core_; }

 private:
  RoutingTables() = default;
  bool leaves(std::uint32_t server) const;
  // Those whose numbers count for the site, also the ones that were removed.
  std::vector<std::uint32_t> named_by(SiteId site, std::uint32_t copies) const;
  wire::Tables tables_;
  slice_config core_{};
  std::vector<std::uint32_t> layout_servers_;
  bool some_are_left_ = false, some_came_later_ = false;
};

// The process's current tables. get() and set() on the loop's thread.
class TableHolder {
 public:
  explicit TableHolder(std::shared_ptr<const RoutingTables> tables) : tables_(std::move(tables)) {}
  const std::shared_ptr<const RoutingTables>& get() const { return tables_; }
  void set(std::shared_ptr<const RoutingTables> tables) {
    tables_ = std::move(tables);
    if (watcher_) watcher_(tables_);
  }
  // `watcher` is told of every later set(); there is one at most, nullptr takes it away.
  using Watcher = std::function<void(const std::shared_ptr<const RoutingTables>&)>;
  void watch(Watcher watcher) { watcher_ = std::move(watcher); }

 private:
  Watcher watcher_;
  std::shared_ptr<const RoutingTables> tables_;
};

}  // namespace slice::routing

#endif  // SLICE_ROUTING_TABLES_H
