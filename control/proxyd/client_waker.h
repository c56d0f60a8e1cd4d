// ClientWaker: makes clients of a proxy that is gone find out that their connections are (docs/proxy.md,
// "Several proxies"): those whose call it acknowledged and never answered send nothing by themselves. One
// loop.
#ifndef SLICE_CONTROL_PROXYD_CLIENT_WAKER_H
#define SLICE_CONTROL_PROXYD_CLIENT_WAKER_H

#include <functional>
#include <vector>

#include "common/loop.h"
#include "common/metrics.h"
#include "common/task.h"
#include "control/proxyd/address_host.h"

namespace slice::proxy {

class ClientWaker {
 public:
  ClientWaker(Loop& loop, AddressHost& host, Metrics& metrics);
  // Wakes these connections, and all that the same clients may have made since from other reserved ports
  // (port_sweep.h), several times over some seconds: packets may be lost, and a client that missed an ARP
  // answers the host before. Ends where `goes_on` says false.
  void wake(std::vector<wire::AddressPeer> known, std::function<bool()> goes_on);

 private:
  using GoesOn = std::function<bool()>;
  static Task<void> wake_known(ClientWaker& self, std::vector<wire::AddressPeer> known, GoesOn goes_on);
  static Task<void> sweep_ports(ClientWaker& self, std::vector<wire::AddressPeer> known, GoesOn goes_on);

  Loop& loop_;
  AddressHost& host_;
  Counter& unswept_;
};

}  // namespace slice::proxy

#endif  // SLICE_CONTROL_PROXYD_CLIENT_WAKER_H
