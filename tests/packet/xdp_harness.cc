#include "tests/packet/xdp_harness.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "bpf/shared/attributes.h"
#include "slice_proxy.skel.h"

namespace slice::packet {

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "tests of packets: %s failed: %s (root is needed)\n", what, std::strerror(errno));
  std::abort();
}

namespace {

template <typename Value>
void put(const bpf_map* map, uint32_t key, const Value& value) {
  require(bpf_map_update_elem(bpf_map__fd(map), &key, &value, BPF_ANY) == 0, "map update");
}

template <typename Value>
Value get(const bpf_map* map, uint32_t key) {
  Value value{};
  require(bpf_map_lookup_elem(bpf_map__fd(map), &key, &value) == 0, "map lookup");
  return value;
}

template <typename Item>
int collect(void* context, void* data, size_t size) {
  Item item{};
  std::memcpy(&item, data, std::min(size, sizeof item));
  static_cast<std::vector<Item>*>(context)->push_back(item);
  return 0;
}

// In a process that has the interfaces already (a harness before this one) they are used again.
void make_interfaces() {
  if (if_nametoindex("clients") != 0) return;
  require(unshare(CLONE_NEWNET) == 0, "a network namespace");
  require(std::system("set -e; sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1;"
                      "for one in clients servers; do ip link add $one type veth peer name $one-peer;"
                      "ip link set $one up; ip link set $one-peer up; done;"
                      "ip address add 10.77.1.1/24 dev clients; ip address add 10.77.2.254/23 dev servers;"
                      "ip address add 10.77.4.254/23 dev servers; "
                      "ip address add fd77::1:1/112 dev clients nodad; "
                      "ip address add fd77::2:fffe/111 dev servers nodad; "
                      "ip address add fd77::4:fffe/111 dev servers nodad; "
                      "ip link set lo up") == 0,
          "making interfaces");
}

}  // namespace

XdpHarness::XdpHarness() {
  make_interfaces();
  clients_ifindex = if_nametoindex("clients");
  servers_ifindex = if_nametoindex("servers");
  libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
  skeleton_ = slice_proxy__open_and_load();
  require(skeleton_ != nullptr, "loading the program");
  eviction_ring_ =
      ring_buffer__new(bpf_map__fd(skeleton_->maps.evictions), collect<slice_eviction>, &evictions_, nullptr);
  orphan_ring_ =
      ring_buffer__new(bpf_map__fd(skeleton_->maps.orphans), collect<slice_orphan>, &orphans_, nullptr);
  require(eviction_ring_ && orphan_ring_, "ring buffers");
  use_ipv6_program(true);
  config_.abi = SLICE_MAP_ABI;
  config_.flags = SLICE_CONFIG_PATCH;
  const uint8_t address[4] = {10, 77, 0, 1};
  std::memcpy(config_.virtual_ipv4, address, 4);
  std::memcpy(config6_.virtual_ipv6, ipv6(1).data(), 16);
  config_.nfs_port = 2049;
  config_.volume = 7;
  config_.generation = 1;
  config_.policy = SLICE_POLICY_MKDIR_SWITCHING;
  config_.name_hash = SLICE_NAME_HASH_MD5;
  config_.threshold = SLICE_DEFAULT_THRESHOLD;
  for (uint8_t i = 0; i < 16; i++) config_.name_key[i] = i;
  config_.site_mask[SLICE_CLASS_DIRECTORY] = SLICE_DEFAULT_DIRECTORY_SITES - 1;
  config_.site_mask[SLICE_CLASS_SMALL_FILE] = SLICE_DEFAULT_SMALL_FILE_SITES - 1;
  config_.site_mask[SLICE_CLASS_STORAGE] = SLICE_DEFAULT_STORAGE_SITES - 1;
  config_.site_mask[SLICE_CLASS_COORDINATOR] = SLICE_DEFAULT_COORDINATOR_SITES - 1;
  config_.attribute_life_ms = 3000;
  config_.now_ms = 100000;
  bind_default_sites();
  apply();
}

XdpHarness::~XdpHarness() {
  ring_buffer__free(eviction_ring_);
  ring_buffer__free(orphan_ring_);
  slice_proxy__destroy(skeleton_);
}

void XdpHarness::apply() {
  put(skeleton_->maps.config, 0, config_);
  put(skeleton_->maps.config6, 0, config6_);
}

void XdpHarness::bind_default_sites() {
  for (uint32_t c = 0; c < SLICE_CLASSES; c++) {
    for (uint32_t s = 0; s < 16; s++) {
      slice_server server = way_to(c, s);
      const uint8_t address[4] = {10, 77, static_cast<uint8_t>(2 + c), static_cast<uint8_t>(1 + s)};
      std::memcpy(server.ipv4, address, 4);
      put(skeleton_->maps.servers, default_server(c, s), server);
      put(skeleton_->maps.servers6, default_server(c, s), slice_server6{});
    }
    for (uint32_t s = 0; s <= config_.site_mask[c]; s++) bind(c, s, default_server(c, s));
  }
}

void XdpHarness::bind_default_sites6() {
  bind_default_sites();
  for (uint32_t c = 0; c < SLICE_CLASSES; c++) {
    for (uint32_t s = 0; s < 16; s++) {
      slice_server6 server{.server = way_to(c, s), .ipv6 = {}};
      std::memcpy(server.ipv6, ipv6((2 + c) << 16 | (1 + s)).data(), 16);
      put(skeleton_->maps.servers, default_server(c, s), slice_server{});
      put(skeleton_->maps.servers6, default_server(c, s), server);
    }
  }
}

slice_server XdpHarness::way_to(uint32_t c, uint32_t s) const {
  slice_server server{};
  server.port = static_cast<uint16_t>(2100 + c);
  server.ifindex = servers_ifindex;
  const uint8_t mac[6] = {2, 0, 0, 1, static_cast<uint8_t>(c), static_cast<uint8_t>(s)};
  const uint8_t own[6] = {2, 0, 0, 2, static_cast<uint8_t>(c), 1};
  std::memcpy(server.next_hop_mac, mac, 6);
  std::memcpy(server.source_mac, own, 6);
  return server;
}

slice_server6 XdpHarness::server6(uint32_t index) const {
  return get<slice_server6>(skeleton_->maps.servers6, index);
}
void XdpHarness::set_server6(uint32_t index, const slice_server6& s) {
  put(skeleton_->maps.servers6, index, s);
}

void XdpHarness::use_ipv6_program(bool use) {
  const uint32_t key = SLICE_PROGRAM_IPV6;
  if (use) {
    put(skeleton_->maps.tail_calls, key, bpf_program__fd(skeleton_->progs.slice_proxy6));
  } else {
    require(bpf_map_delete_elem(bpf_map__fd(skeleton_->maps.tail_calls), &key) == 0, "taking a program out");
  }
}

void XdpHarness::set_generic(uint32_t ifindex, bool generic) {
  if (generic) {
    put(skeleton_->maps.generic, ifindex, uint32_t{1});
  } else {
    bpf_map_delete_elem(bpf_map__fd(skeleton_->maps.generic), &ifindex);
  }
}

slice_server XdpHarness::server(uint32_t index) const {
  return get<slice_server>(skeleton_->maps.servers, index);
}
void XdpHarness::set_server(uint32_t index, const slice_server& s) {
  put(skeleton_->maps.servers, index, s);
}

void XdpHarness::bind(uint32_t site_class, uint32_t site, uint32_t server_index) {
  put(skeleton_->maps.sites, site_class * SLICE_MAX_SITES + site, slice_site{server_index, 1});
}

void XdpHarness::set_copies(uint32_t site, uint32_t first, uint32_t second, uint32_t third) {
  put(skeleton_->maps.copies, site,
      first | uint64_t{second} << SLICE_COPY_BITS | uint64_t{third} << 2 * SLICE_COPY_BITS);
}

void XdpHarness::clear_state() {
  for (uint32_t i = 0; i < SLICE_PENDING_ENTRIES; i++) put(skeleton_->maps.pending, i, slice_pending{});
  for (uint32_t i = 0; i < SLICE_PENDING_ENTRIES; i++) put(skeleton_->maps.pending6, i, slice_pending6{});
  for (uint32_t i = 0; i < SLICE_FRAGMENT_ENTRIES; i++) put(skeleton_->maps.fragments, i, uint64_t{0});
  for (uint32_t i = 0; i < SLICE_ATTR_BUCKETS; i++) put(skeleton_->maps.attributes, i, slice_attr_bucket{});
}

void XdpHarness::route(const std::string& words) {
  require(std::system(("ip route replace " + words).c_str()) == 0, "ip route replace");
  for (uint32_t i = 0; i < SLICE_SOURCE_ENTRIES; i++) put(skeleton_->maps.sources, i, uint64_t{0});
  for (uint32_t i = 0; i < SLICE_SOURCE_ENTRIES; i++) put(skeleton_->maps.sources6, i, slice_source6{});
}

slice_attr_bucket XdpHarness::bucket(uint64_t fileid) const {
  return get<slice_attr_bucket>(skeleton_->maps.attributes, slice_attr_bucket_key(fileid));
}

void XdpHarness::set_bucket(uint64_t fileid, const slice_attr_bucket& b) {
  put(skeleton_->maps.attributes, slice_attr_bucket_key(fileid), b);
}

void XdpHarness::know(uint64_t fileid, uint64_t size) {
  slice_attr_bucket bucket{};
  bucket.fileid[2] = fileid;
  bucket.flags[2] = SLICE_ATTR_VALID;
  bucket.learned_ms[2] = config().now_ms;
  bucket.hint[2] = (3ULL << 62) | size;
  bucket.entry[2].size = size;
  set_bucket(fileid, bucket);
}

std::optional<slice_pending> XdpHarness::pending(const Bytes& request_frame) const {
  uint32_t address;
  uint16_t port;
  uint32_t xid;
  std::memcpy(&address, &request_frame[26], 4);
  std::memcpy(&port, &request_frame[34], 2);
  std::memcpy(&xid, &request_frame[kPayloadAt], 4);
  auto entry = get<slice_pending>(skeleton_->maps.pending, slice_pending_key(address, port, xid));
  if (entry.check == 0 || entry.xid != xid) return std::nullopt;
  return entry;
}

std::optional<slice_pending6> XdpHarness::pending6(const Bytes& request_frame) const {
  const size_t udp = request_frame[20] == 44 ? 62 : 54;
  uint64_t network, host;
  uint16_t port;
  uint32_t xid;
  std::memcpy(&network, &request_frame[22], 8);
  std::memcpy(&host, &request_frame[30], 8);
  std::memcpy(&port, &request_frame[udp], 2);
  std::memcpy(&xid, &request_frame[udp + 8], 4);
  auto entry = get<slice_pending6>(skeleton_->maps.pending6, slice_pending_key6(network, host, port, xid));
  if (entry.check == 0 || entry.xid != xid) return std::nullopt;
  return entry;
}

Pass XdpHarness::pass(int program, const Bytes& frame, uint32_t repeat) const {
  Pass result;
  result.frame.resize(frame.size() + 256);
  xdp_md context{};
  context.data_end = static_cast<uint32_t>(frame.size());
  bool is_ipv6 = frame.size() >= 54 && frame[12] == 0x86;
  bool to_virtual = is_ipv6 ? std::memcmp(&frame[38], ipv6(1).data(), 16) == 0
                            : frame.size() >= 34 && std::memcmp(&frame[30], config_.virtual_ipv4, 4) == 0;
  context.ingress_ifindex = to_virtual ? clients_ifindex : servers_ifindex;
  if (ingress_ifindex != 0) context.ingress_ifindex = ingress_ifindex;
  bpf_test_run_opts options{};
  options.sz = sizeof options;
  options.data_in = frame.data();
  options.data_size_in = static_cast<uint32_t>(frame.size());
  options.data_out = result.frame.data();
  options.data_size_out = static_cast<uint32_t>(result.frame.size());
  options.ctx_in = &context;
  options.ctx_size_in = sizeof context;
  options.repeat = static_cast<int>(repeat);
  require(bpf_prog_test_run_opts(program, &options) == 0, "BPF_PROG_RUN");
  result.verdict = options.retval;
  result.frame.resize(options.data_size_out);
  result.duration_ns = options.duration;
  return result;
}

Outcome XdpHarness::run(const Bytes& frame, uint32_t repeat) {
  auto before = counters();
  Outcome result{pass(frame, repeat), {}};
  auto after = counters();
  for (uint32_t i = 0; i < after.size(); i++) {
    if (after[i] != before[i]) result.outcomes[i] = after[i] - before[i];
  }
  return result;
}

std::array<uint64_t, SLICE_OUTCOME_COUNT> XdpHarness::counters() const {
  static const int processors = libbpf_num_possible_cpus();
  std::array<uint64_t, SLICE_OUTCOME_COUNT> sums{};
  std::vector<uint64_t> each(static_cast<size_t>(processors));
  for (uint32_t i = 0; i < SLICE_OUTCOME_COUNT; i++) {
    require(bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.outcomes), &i, each.data()) == 0, "counters");
    for (uint64_t v : each) sums[i] += v;
  }
  return sums;
}

std::vector<slice_eviction> XdpHarness::evictions() {
  ring_buffer__consume(eviction_ring_);
  return std::exchange(evictions_, {});
}

std::vector<slice_orphan> XdpHarness::orphans() {
  ring_buffer__consume(orphan_ring_);
  return std::exchange(orphans_, {});
}

int XdpHarness::map_fd(const char* name) const {
  return bpf_object__find_map_fd_by_name(skeleton_->obj, name);
}
int XdpHarness::program() const {
  return bpf_program__fd(skeleton_->progs.slice_proxy);
}
int XdpHarness::spread_program() const {
  return bpf_program__fd(skeleton_->progs.slice_spread);
}

}  // namespace slice::packet
