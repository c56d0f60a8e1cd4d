// HostAddresses: all virtual addresses of a volume, on one interface: this host has all of them or none.
#ifndef SLICE_CONTROL_PROXYD_HOST_ADDRESSES_H
#define SLICE_CONTROL_PROXYD_HOST_ADDRESSES_H

#include <memory>
#include <string>
#include <vector>

#include "control/proxyd/host_address.h"

namespace slice::proxy {

class HostAddresses : public AddressHost {
 public:
  // As HostAddress::open(); one address at least.
  static Result<std::unique_ptr<HostAddresses>> open(Loop& loop, const std::vector<IpAddress>& addresses,
                                                     const std::string& interface,
                                                     const ClaimSocket::Claimed& claimed);

  // What is so where it is so of each; of what is wrong the first.
  Look look() override;
  Status put(unsigned seconds) override;
  Status take_off() override;
  Status put_at_loopback(unsigned seconds) override;
  Status take_off_loopback() override;
  void drop_connections(const Keep& keep) override;
  void announce() override;
  void probe() override;
  std::vector<wire::AddressPeer> peers() override;
  void wake(const std::vector<wire::AddressPeer>& peers) override;
  bool lacks_destroy() const;

 private:
  // Tries it with each, whatever becomes of one; the first refusal.
  template <class Change>
  Status each(const Change& change);

  std::vector<std::unique_ptr<HostAddress>> all_;
};

}  // namespace slice::proxy

#endif  // SLICE_CONTROL_PROXYD_HOST_ADDRESSES_H
