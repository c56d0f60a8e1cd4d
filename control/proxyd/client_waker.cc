#include "control/proxyd/client_waker.h"

#include <array>
#include <utility>

#include "common/log.h"
#include "control/proxyd/port_sweep.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;

// After each pause once more.
constexpr std::array<Duration, 7> kPauses{0ms, 50ms, 150ms, 300ms, 500ms, 1s, 2s};
// Rounds over clients' reserved ports: after these pauses, and so many ports every kSweepStep.
constexpr std::array<Duration, 3> kSweeps{0ms, 400ms, 2s};
constexpr std::size_t kSweepPorts = 128;
constexpr Duration kSweepStep = 5ms;

}  // namespace

ClientWaker::ClientWaker(Loop& loop, AddressHost& host, Metrics& metrics)
    : loop_(loop),
      host_(host),
      unswept_(metrics.counter("proxy_address_unswept_total",
                               "clients of a proxy that is gone whose reserved ports were not tried, since "
                               "there were more than 256 clients")) {}

void ClientWaker::wake(std::vector<wire::AddressPeer> known, std::function<bool()> goes_on) {
  if (known.empty()) return;
  log_info("wakes {} connections of clients of a proxy that is gone", known.size());
  spawn(wake_known(*this, known, goes_on));
  spawn(sweep_ports(*this, std::move(known), std::move(goes_on)));
}

Task<void> ClientWaker::wake_known(ClientWaker& self, std::vector<wire::AddressPeer> known, GoesOn goes_on) {
  for (const Duration pause : kPauses) {
    if (pause > Duration{}) co_await self.loop_.sleep(pause);
    if (!goes_on()) co_return;
    self.host_.wake(known);
  }
}

Task<void> ClientWaker::sweep_ports(ClientWaker& self, std::vector<wire::AddressPeer> known, GoesOn goes_on) {
  PortSweep sweep(known);
  if (sweep.clients() == 0) co_return;
  if (sweep.left_out() > 0) {
    self.unswept_.add(sweep.left_out());
    log_warning(
        "wakes {} clients at all reserved ports, and {} more only at those known: who has taken another "
        "may wait for half a minute or longer",
        sweep.clients(), sweep.left_out());
  }
  for (const Duration pause : kSweeps) {
    co_await self.loop_.sleep(pause);
    for (auto some = sweep.next(kSweepPorts); !some.empty(); some = sweep.next(kSweepPorts)) {
      if (!goes_on()) co_return;
      self.host_.wake(some);
      co_await self.loop_.sleep(kSweepStep);
    }
  }
}

}  // namespace slice::proxy
