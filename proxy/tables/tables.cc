#include "proxy/tables/tables.h"

#include <atomic>
#include <cstring>

#include "common/bytes.h"
#include "wire/listed_site.h"

namespace slice::proxy {
namespace {

// Address and port are 8 aligned bytes: read and written at once.
std::uint64_t endpoint_word(const slice_server& server) {
  return slice_load_relaxed64(reinterpret_cast<const std::uint64_t*>(&server));
}

slice_server entry_of(std::uint64_t word) {
  slice_server entry{};
  std::memcpy(&entry, &word, sizeof word);
  return entry;
}
std::uint64_t word_of(const slice_server& entry) {
  std::uint64_t word = 0;
  std::memcpy(&word, &entry, sizeof word);
  return word;
}

// The words of an entry with IPv6 are written between two steps of its count, which is odd meanwhile.
std::uint64_t* address_words(slice_server6& entry) {
  return reinterpret_cast<std::uint64_t*>(entry.ipv6);
}

std::optional<rpc::Endpoint> read6(slice_server6& entry) {
  std::atomic_ref<std::uint32_t> count(entry.server.reserved1);
  const std::uint64_t* words = address_words(entry);
  // So often at most: a process that died in the midst leaves it odd, until the next writes all anew.
  constexpr int kTries = 10'000;
  for (int i = 0; i < kTries; ++i) {
    const std::uint32_t before = count.load(std::memory_order_acquire);
    const slice_server head = entry_of(endpoint_word(entry.server));
    const std::uint64_t high = slice_load_relaxed64(words), low = slice_load_relaxed64(words + 1);
    std::atomic_thread_fence(std::memory_order_acquire);
    if ((before & 1) != 0 || count.load(std::memory_order_relaxed) != before) continue;
    if (head.port == 0) return std::nullopt;
    return rpc::Endpoint{IpAddress::of_words(to_big_endian(high), to_big_endian(low)), head.port};
  }
  return std::nullopt;
}

bool write6(slice_server6& entry, rpc::Endpoint endpoint) {
  if (read6(entry).value_or(rpc::Endpoint{}) == endpoint) return false;
  std::atomic_ref<std::uint32_t> count(entry.server.reserved1);
  const std::uint32_t now = count.load(std::memory_order_relaxed) | 1;
  count.store(now, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  std::uint64_t* words = address_words(entry);
  slice_store_relaxed32(&entry.server.ifindex, 0);
  slice_store_relaxed64(words, to_big_endian(endpoint.address.high()));
  slice_store_relaxed64(words + 1, to_big_endian(endpoint.address.low()));
  slice_server head{};
  head.port = endpoint.port;
  slice_store_relaxed64(reinterpret_cast<std::uint64_t*>(&entry.server), word_of(head));
  count.store(now + 1, std::memory_order_release);
  return true;
}

bool write4(slice_server& entry, rpc::Endpoint endpoint) {
  slice_server fresh{};
  store_be(fresh.ipv4, endpoint.address.v4());
  fresh.port = endpoint.port;
  if (endpoint_word(entry) == word_of(fresh)) return false;
  // Another host: the way to it is not known yet.
  slice_store_relaxed32(&entry.ifindex, 0);
  slice_store_relaxed64(reinterpret_cast<std::uint64_t*>(&entry), word_of(fresh));
  return true;
}

}  // namespace

std::optional<rpc::Endpoint> Tables::endpoint_at(std::uint32_t server) const {
  if (server == 0 || server >= SLICE_MAX_SERVERS) return std::nullopt;
  const slice_server entry = entry_of(endpoint_word(servers[server]));
  if (entry.port == 0) return read6(servers6[server]);
  return rpc::Endpoint{load_be<std::uint32_t>(entry.ipv4), entry.port};
}

std::optional<rpc::Endpoint> Tables::endpoint_of(std::uint32_t site_class, std::uint32_t site) const {
  if (site_class == kByVirtualAddress) return virtual_address;
  if (wire::is_listed(site)) return endpoint_at(wire::listed_servers(site).front() + 1);
  return endpoint_at(slice_load_relaxed32(&sites[slice_site_key(site_class, site)].server));
}

std::vector<rpc::Endpoint> Tables::copies_of(std::uint32_t site, std::uint32_t count) const {
  if (wire::is_listed(site)) {
    std::vector<rpc::Endpoint> endpoints;
    for (std::uint32_t server : wire::listed_servers(site)) {
      const auto endpoint = endpoints.size() < count ? endpoint_at(server + 1) : std::nullopt;
      if (endpoint) endpoints.push_back(*endpoint);
    }
    return endpoints;
  }
  return routing::owners_from(site, config->site_mask[SLICE_CLASS_STORAGE], count,
                              [&](std::uint32_t at) { return endpoint_of(SLICE_CLASS_STORAGE, at); });
}

bool Tables::set_endpoint(std::uint32_t server, rpc::Endpoint endpoint) const {
  // In the one family first what it is not any more: who looks between finds it in neither, not an old one.
  const bool v4 = endpoint.address.is_v4();
  const bool of_other = v4 ? write6(servers6[server], {}) : write4(servers[server], {});
  return (v4 ? write4(servers[server], endpoint) : write6(servers6[server], endpoint)) || of_other;
}

bool Tables::bind(std::uint32_t site_class, std::uint32_t site, std::uint32_t server,
                  std::uint32_t generation) const {
  slice_site& entry = sites[slice_site_key(site_class, site)];
  const slice_site fresh{server, generation};
  const bool elsewhere = slice_load_relaxed32(&entry.server) != server;
  std::uint64_t word = 0;
  std::memcpy(&word, &fresh, sizeof word);
  slice_store_relaxed64(reinterpret_cast<std::uint64_t*>(&entry), word);
  return elsewhere;
}

void Tables::forget_sources() const {
  if (sources == nullptr) return;
  for (std::size_t i = 0; i < SLICE_SOURCE_ENTRIES; ++i)
    *static_cast<volatile std::uint64_t*>(sources + i) = 0;
  for (std::size_t i = 0; i < SLICE_SOURCE_ENTRIES; ++i)
    *static_cast<volatile std::uint64_t*>(&sources6[i].check) = 0;
}

namespace {

constexpr std::size_t whole_pages(std::size_t bytes) {
  return (bytes + 4095) & ~std::size_t{4095};
}
constexpr std::size_t kSites = 4096;
constexpr std::size_t kServers = kSites + whole_pages(sizeof(slice_site) * SLICE_CLASSES * SLICE_MAX_SITES);
constexpr std::size_t kServers6 = kServers + whole_pages(sizeof(slice_server) * SLICE_MAX_SERVERS);
constexpr std::size_t kAttributes = kServers6 + whole_pages(sizeof(slice_server6) * SLICE_MAX_SERVERS);
constexpr std::size_t kMemory = kAttributes + whole_pages(sizeof(slice_attr_bucket) * SLICE_ATTR_BUCKETS);

}  // namespace

MemoryTables::MemoryTables() : memory_(kMemory) {
  tables_.config = memory_.at<slice_config>(0);
  tables_.sites = memory_.at<slice_site>(kSites);
  tables_.servers = memory_.at<slice_server>(kServers);
  tables_.servers6 = memory_.at<slice_server6>(kServers6);
  tables_.attributes = memory_.at<slice_attr_bucket>(kAttributes);
}

void fill_config(const routing::RoutingTables& from, slice_config& out) {
  slice_config core = from.core();
  core.abi = slice_load_relaxed32(&out.abi);
  core.flags = SLICE_CONFIG_PATCH | (out.flags & SLICE_CONFIG_CARDS);
  note_maps(from, core);
  core.now_ms = out.now_ms;
  core.attribute_life_ms = kAttributeLifeMs;
  out = core;
  slice_store_relaxed32(&out.abi, SLICE_MAP_ABI);
}

void note_maps(const routing::RoutingTables& from, slice_config& config) {
  const std::uint32_t others = slice_load_relaxed32(&config.flags) & ~SLICE_CONFIG_MAPS;
  slice_store_relaxed32(&config.flags, others | (from.mirrored_go_by_hash() ? 0 : SLICE_CONFIG_MAPS));
}

std::size_t bind_sites(const wire::Tables& from, const Tables& to) {
  std::size_t elsewhere = 0;
  for (const wire::ServerEntry& server : from.servers) {
    if (server.server + 1 >= SLICE_MAX_SERVERS) continue;
    elsewhere += to.set_endpoint(server.server + 1, server.endpoint) ? 1 : 0;
  }
  auto generation = static_cast<std::uint32_t>(from.generation.value);
  for (std::uint32_t site_class = 0; site_class < SLICE_CLASSES; ++site_class) {
    for (std::uint32_t site = 0; site < from.sites[site_class].size() && site < SLICE_MAX_SITES; ++site)
      elsewhere += to.bind(site_class, site, from.sites[site_class][site] + 1, generation) ? 1 : 0;
  }
  slice_store_relaxed32(&to.config->generation, generation);
  return elsewhere;
}

}  // namespace slice::proxy
