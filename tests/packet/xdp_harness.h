// Loads the XDP program, fills its tables with a small ensemble, and runs
// frames through it with BPF_PROG_RUN. Needs root. Not for several threads, but for pass().
// The process gets a network namespace of its own, with two interfaces: `clients`, where the
// routes have 10.77.1.0/24 and fd77::1:0/112, and `servers`, where they have 10.77.2.0/23, 10.77.4.0/23
// and fd77::2:0/111, fd77::4:0/111.
// Threads that use the harness have to be started after it was made.
#ifndef SLICE_TESTS_PACKET_XDP_HARNESS_H
#define SLICE_TESTS_PACKET_XDP_HARNESS_H

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bpf/shared/map_abi.h"
#include "bpf/shared/outcomes.h"
#include "tests/packet/packet_builder.h"

struct slice_proxy;  // bpftool's skeleton
struct ring_buffer;

namespace slice::packet {

// Ends the program, with errno's reason, unless that is so.
void require(bool condition, const char* what);

struct Pass {
  uint32_t verdict = 0;      // enum xdp_action
  Bytes frame;               // as the program left it
  uint32_t duration_ns = 0;  // per repetition
};

struct Outcome : Pass {
  std::map<uint32_t, uint64_t> outcomes;  // counters that moved, by how much
};

class XdpHarness {
 public:
  // Aborts with a message when the program cannot be loaded.
  XdpHarness();
  ~XdpHarness();
  XdpHarness(const XdpHarness&) = delete;
  XdpHarness& operator=(const XdpHarness&) = delete;

  // The ensemble's configuration; change it and call apply().
  slice_config& config() { return config_; }
  slice_config6& config6() { return config6_; }  // fd77::1
  void apply();
  // Every class bound to servers of its own: class c, site s to server
  // 1 + c * 16 + s % 16, at 10.77.(2 + c).(1 + s % 16), port 2100 + c. What is in `servers6` is cleared.
  void bind_default_sites();
  static uint32_t default_server(uint32_t site_class, uint32_t site) {
    return 1 + site_class * 16 + site % 16;
  }
  slice_server server(uint32_t index) const;
  void set_server(uint32_t index, const slice_server& server);
  // The same over IPv6, at fd77::(2 + c):(1 + s % 16), and what is in `servers` is cleared.
  void bind_default_sites6();
  slice_server6 server6(uint32_t index) const;
  void set_server6(uint32_t index, const slice_server6& server);
  // Whether the program of IPv6 is where the other one finds it, as it is to begin with.
  void use_ipv6_program(bool use);
  // Tells the program that it runs generically at the interface, or does not.
  void set_generic(uint32_t ifindex, bool generic);
  void bind(uint32_t site_class, uint32_t site, uint32_t server);
  // Whom READs of a mirrored file's stripe at the storage site may go to; all 0: user space sees to them.
  void set_copies(uint32_t site, uint32_t first, uint32_t second, uint32_t third = 0);

  // Forgets pending requests, attributes and fragments.
  void clear_state();
  slice_attr_bucket bucket(uint64_t fileid) const;
  void set_bucket(uint64_t fileid, const slice_attr_bucket& bucket);
  // The proxy has learned now that a file has so many bytes, and says so in hints.
  void know(uint64_t fileid, uint64_t size);
  std::optional<slice_pending> pending(const Bytes& request_frame) const;
  std::optional<slice_pending6> pending6(const Bytes& request_frame) const;

  // Runs the frame once (or `repeat` times, over its own output). `pass` looks at no counters, and any thread
  // may call it.
  Pass pass(const Bytes& frame, uint32_t repeat = 1) const { return pass(program(), frame, repeat); }
  // The same through another program.
  Pass pass(int program, const Bytes& frame, uint32_t repeat = 1) const;
  // Makes an address or a network ("10.77.1.0/24 dev servers") reachable otherwise; the program's own
  // tables of sources forget what they knew. For `ip route replace`.
  void route(const std::string& words);
  Outcome run(const Bytes& frame, uint32_t repeat = 1);
  // One counter per outcome, summed over processors.
  std::array<uint64_t, SLICE_OUTCOME_COUNT> counters() const;

  // What arrived on the ring buffers since the last call.
  std::vector<slice_eviction> evictions();
  std::vector<slice_orphan> orphans();

  int program() const;
  // The one that sends TCP on, which is no XDP program.
  int spread_program() const;
  // Of one of the program's maps, by its name; -1 where there is none.
  int map_fd(const char* name) const;
  // Where frames come from: those to the virtual address by clients_ifindex, others by servers_ifindex; all
  // by ingress_ifindex, where that is not 0.
  uint32_t clients_ifindex = 0;
  uint32_t servers_ifindex = 0;
  uint32_t ingress_ifindex = 0;

 private:
  slice_server way_to(uint32_t site_class, uint32_t site) const;

  slice_proxy* skeleton_;
  slice_config config_{};
  slice_config6 config6_{};
  ring_buffer* eviction_ring_ = nullptr;
  ring_buffer* orphan_ring_ = nullptr;
  std::vector<slice_eviction> evictions_;
  std::vector<slice_orphan> orphans_;
};

}  // namespace slice::packet

#endif  // SLICE_TESTS_PACKET_XDP_HARNESS_H
