// Tables: where the proxy's tables lie: in the pinned maps that the XDP program reads too, or in anonymous
// memory where there is none. Every word is read by itself, at any time, from any thread, but for addresses
// of IPv6, which are read until they are whole; one thread writes (slice-proxyd's control thread; an
// operator's bpftool may as well).
#ifndef SLICE_PROXY_TABLES_TABLES_H
#define SLICE_PROXY_TABLES_TABLES_H

#include <memory>
#include <optional>
#include <vector>

#include "bpf/shared/map_abi.h"
#include "bpf/shared/wanted.h"
#include "common/config.h"
#include "routing/tables.h"
#include "rpc/endpoint.h"
#include "service/zeroed_pages.h"

namespace slice::proxy {

// The class, beside those of sites, of what a proxy outside of the ensemble cannot route: all of it goes to
// the virtual address.
inline constexpr std::uint32_t kByVirtualAddress = SLICE_CLASSES;

struct Tables {
  slice_config* config = nullptr;
  slice_site* sites = nullptr;              // SLICE_CLASSES * SLICE_MAX_SITES
  slice_server* servers = nullptr;          // SLICE_MAX_SERVERS
  slice_server6* servers6 = nullptr;        // SLICE_MAX_SERVERS
  slice_attr_bucket* attributes = nullptr;  // SLICE_ATTR_BUCKETS
  std::uint64_t* sources = nullptr;         // SLICE_SOURCE_ENTRIES; null where there is no XDP program
  slice_source6* sources6 = nullptr;        // SLICE_SOURCE_ENTRIES; null likewise
  slice_wanted_slot* wanted = nullptr;      // SLICE_CLASSES * SLICE_MAX_SITES; null likewise
  std::uint64_t* copies = nullptr;          // SLICE_MAX_SITES; null likewise
  std::uint64_t* spread = nullptr;          // SLICE_CLIENT_SLOTS; null likewise
  slice_way* ways = nullptr;                // SLICE_MAX_SPREAD; null likewise
  // Where the ensemble's proxies are, of a proxy that is outside of it (docs/client-proxy.md); else zero.
  rpc::Endpoint virtual_address;
  bool outside() const { return virtual_address != rpc::Endpoint{}; }

  // The server that has the site now, of a listed one (wire/listed_site.h) the first; nothing where it is
  // bound to none.
  std::optional<rpc::Endpoint> endpoint_of(std::uint32_t site_class, std::uint32_t site) const;
  // The servers that have copies of what is on a storage site, or a listed one, as
  // routing::RoutingTables::copies_of() says it.
  std::vector<rpc::Endpoint> copies_of(std::uint32_t site, std::uint32_t count) const;
  // The address under a key of `servers`; nothing where there is none.
  std::optional<rpc::Endpoint> endpoint_at(std::uint32_t server) const;
  // Both say whether that led elsewhere before. `server`: a key of `servers` and `servers6`, 0 for none.
  bool set_endpoint(std::uint32_t server, rpc::Endpoint endpoint) const;
  bool bind(std::uint32_t site_class, std::uint32_t site, std::uint32_t server,
            std::uint32_t generation) const;
  // Makes the XDP program ask the kernel's routes anew where clients' addresses may come in.
  void forget_sources() const;
};

// Tables in memory of this process, all zero.
class MemoryTables {
 public:
  MemoryTables();
  const Tables& tables() const { return tables_; }

 private:
  const ZeroedPages memory_;
  Tables tables_;
};

// How long a learned attribute may fill room of replies (slice_config.attribute_life_ms).
inline constexpr std::uint32_t kAttributeLifeMs = 30'000;

// What the routing core is configured with, and that attributes may be patched. Sets abi last: until then the
// XDP program passes everything.
void fill_config(const routing::RoutingTables& from, slice_config& out);
// What newer tables change of that: whether mirrored files may lie elsewhere than sites say
// (SLICE_CONFIG_MAPS).
void note_maps(const routing::RoutingTables& from, slice_config& config);
// Binds sites as the manager's tables say, whatever they were bound to. What the XDP program needs of the way
// to a server (interface, hardware addresses) stays as it is where the server's address does. The number of
// entries that led elsewhere.
std::size_t bind_sites(const wire::Tables& from, const Tables& to);

}  // namespace slice::proxy

#endif  // SLICE_PROXY_TABLES_TABLES_H
