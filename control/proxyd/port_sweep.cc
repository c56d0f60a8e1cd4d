#include "control/proxyd/port_sweep.h"

#include <netinet/in.h>

#include <algorithm>

namespace slice::proxy {

PortSweep::PortSweep(const std::vector<wire::AddressPeer>& known) : known_(known) {
  std::sort(known_.begin(), known_.end());
  for (const wire::AddressPeer& peer : known_)
    if (peer.port < IPPORT_RESERVED) clients_.emplace_back(peer.address, peer.at);
  std::sort(clients_.begin(), clients_.end());
  clients_.erase(std::unique(clients_.begin(), clients_.end()), clients_.end());
  if (clients_.size() <= kMaxClients) return;
  left_out_ = clients_.size() - kMaxClients;
  clients_.resize(kMaxClients);
}

std::vector<wire::AddressPeer> PortSweep::next(std::size_t most) {
  constexpr std::size_t kPorts = kLast - kFirst + 1;
  std::vector<wire::AddressPeer> found;
  for (; turn_ < kPorts * clients_.size() && found.size() < most; ++turn_) {
    const auto& [address, at] = clients_[turn_ % clients_.size()];
    const wire::AddressPeer peer{address, static_cast<std::uint16_t>(kFirst + turn_ / clients_.size()), at};
    if (!std::binary_search(known_.begin(), known_.end(), peer)) found.push_back(peer);
  }
  if (found.empty()) turn_ = 0;
  return found;
}

}  // namespace slice::proxy
