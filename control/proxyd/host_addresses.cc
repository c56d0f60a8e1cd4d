#include "control/proxyd/host_addresses.h"

#include <algorithm>
#include <utility>

namespace slice::proxy {

Result<std::unique_ptr<HostAddresses>> HostAddresses::open(Loop& loop,
                                                           const std::vector<IpAddress>& addresses,
                                                           const std::string& interface,
                                                           const ClaimSocket::Claimed& claimed) {
  auto made = std::make_unique<HostAddresses>();
  for (const IpAddress address : addresses) {
    auto one = HostAddress::open(loop, address, interface, claimed);
    if (!one) return fail(std::move(one).error());
    made->all_.push_back(std::move(*one));
  }
  return made;
}

AddressHost::Look HostAddresses::look() {
  Look seen = all_.front()->look();
  for (std::size_t i = 1; i < all_.size(); ++i) {
    Look other = all_[i]->look();
    seen.has = seen.has && other.has;
    seen.at_loopback = seen.at_loopback && other.at_loopback;
    if (seen.unfit.empty()) seen.unfit = std::move(other.unfit);
    if (seen.unshared.empty()) seen.unshared = std::move(other.unshared);
  }
  return seen;
}

template <class Change>
Status HostAddresses::each(const Change& change) {
  Status all;
  for (const auto& one : all_) {
    Status done = change(*one);
    if (all && !done) all = std::move(done);
  }
  return all;
}

Status HostAddresses::put(unsigned seconds) {
  return each([seconds](HostAddress& one) { return one.put(seconds); });
}
Status HostAddresses::take_off() {
  return each([](HostAddress& one) { return one.take_off(); });
}
Status HostAddresses::put_at_loopback(unsigned seconds) {
  return each([seconds](HostAddress& one) { return one.put_at_loopback(seconds); });
}
Status HostAddresses::take_off_loopback() {
  return each([](HostAddress& one) { return one.take_off_loopback(); });
}

void HostAddresses::drop_connections(const Keep& keep) {
  for (const auto& one : all_) one->drop_connections(keep);
}
void HostAddresses::announce() {
  for (const auto& one : all_) one->announce();
}
void HostAddresses::probe() {
  for (const auto& one : all_) one->probe();
}

std::vector<wire::AddressPeer> HostAddresses::peers() {
  std::vector<wire::AddressPeer> found;
  for (const auto& one : all_) {
    const std::vector<wire::AddressPeer> some = one->peers();
    found.insert(found.end(), some.begin(), some.end());
  }
  std::sort(found.begin(), found.end());
  if (found.size() > wire::kMaxAddressPeers) found.resize(wire::kMaxAddressPeers);
  return found;
}

void HostAddresses::wake(const std::vector<wire::AddressPeer>& peers) {
  for (const auto& one : all_) one->wake(peers);
}

bool HostAddresses::lacks_destroy() const {
  return std::any_of(all_.begin(), all_.end(), [](const auto& one) { return one->lacks_destroy(); });
}

}  // namespace slice::proxy
