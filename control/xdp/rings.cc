#include "control/xdp/rings.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <sys/epoll.h>

#include <algorithm>
#include <memory>

#include "common/log.h"
#include "control/xdp/loader.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLongest = 500ms;
constexpr Duration kFirstDelay = 2ms;
constexpr std::size_t kHeldAtMost = 4096;  // frames
constexpr std::size_t kEthernet = 14, kIpv4 = 20, kIpv6 = 40, kIpv6Fragment = 8;
constexpr std::uint16_t kTypeIpv6 = 0x86dd;

}  // namespace

Rings::Rings(rpc::EpollLoop& loop, const Loader& loader, Metrics& metrics,
             std::function<void(const slice_eviction&)> evicted)
    : loop_(loop),
      program_(loader.program_fd()),
      evicted_(std::move(evicted)),
      reruns_(metrics.counter("proxy_fragments_run_again_total",
                              "fragments that came before their first and were run through XDP again")),
      expired_(metrics.counter("proxy_fragments_expired_total", "fragments whose first never came")),
      overflow_(
          metrics.counter("proxy_fragments_overflow_total", "fragments beyond the room for waiting ones")) {
  rings_ = ring_buffer__new(loader.evictions_fd(), &Rings::on_eviction, this, nullptr);
  if (rings_ == nullptr || ring_buffer__add(rings_, loader.orphans_fd(), &Rings::on_orphan, this) != 0) {
    log_error("cannot read the rings of the XDP program");
    return;
  }
  loop_.watch(ring_buffer__epoll_fd(rings_), EPOLLIN,
              [this](std::uint32_t) { ring_buffer__consume(rings_); });
}

Rings::~Rings() {
  if (rings_ == nullptr) return;
  loop_.unwatch(ring_buffer__epoll_fd(rings_));
  ring_buffer__free(rings_);
}

int Rings::on_eviction(void* self, void* data, std::size_t size) {
  if (size >= sizeof(slice_eviction)) {
    static_cast<Rings*>(self)->evicted_(*static_cast<const slice_eviction*>(data));
  }
  return 0;
}

int Rings::on_orphan(void* self, void* data, std::size_t size) {
  if (size >= sizeof(slice_orphan)) static_cast<Rings*>(self)->hold(*static_cast<const slice_orphan*>(data));
  return 0;
}

Rings::Key Rings::key_of(const std::uint8_t* frame, std::size_t length) {
  const auto* ip = reinterpret_cast<const char*>(frame + kEthernet);
  if (length < kEthernet + kIpv4) return {};
  if (load_be<std::uint16_t>(frame + kEthernet - 2) != kTypeIpv6) return Key(ip + 12, 8) + Key(ip + 4, 4);
  if (length < kEthernet + kIpv6 + kIpv6Fragment) return {};
  return Key(ip + 8, 32) + Key(ip + kIpv6 + 2, 6);
}

void Rings::hold(const slice_orphan& orphan) {
  std::size_t length = std::min<std::size_t>(orphan.length, sizeof orphan.frame);
  Held held;
  held.key = key_of(orphan.frame, length);
  if (held.key.empty()) return;
  held.ifindex = orphan.ifindex;
  held.frame.append({orphan.frame, length});
  auto [seen, is_new] = first_seen_.emplace(held.key, loop_.now());
  Duration age = loop_.now() - seen->second;
  if (age > kLongest) {
    first_seen_.erase(seen);
    return expired_.add();
  }
  if (held_ >= kHeldAtMost) {
    first_seen_.erase(seen);
    return overflow_.add();
  }
  if (is_new) {
    loop_.after(2 * kLongest, [this, key = held.key] { first_seen_.erase(key); });
  }
  ++held_;
  auto kept = std::make_shared<Held>(std::move(held));
  loop_.after(std::max(kFirstDelay, age), [this, kept] {
    --held_;
    run_again(std::move(*kept));
  });
}

// One more time through the program. A first fragment that is still missing brings the frame back by the
// ring.
void Rings::run_again(Held held) {
  xdp_md context{};
  context.data_end = static_cast<std::uint32_t>(held.frame.size());
  context.ingress_ifindex = held.ifindex;
  bpf_test_run_opts options{};
  options.sz = sizeof options;
  options.data_in = held.frame.data();
  options.data_size_in = static_cast<std::uint32_t>(held.frame.size());
  options.ctx_in = &context;
  options.ctx_size_in = sizeof context;
  options.repeat = 1;
  options.batch_size = 1;
  options.flags = BPF_F_TEST_XDP_LIVE_FRAMES;
  reruns_.add();
  if (int error = bpf_prog_test_run_opts(program_, &options); error != 0) {
    log_debug("a fragment could not be run again: {}", error);
  }
}

}  // namespace slice::proxy
