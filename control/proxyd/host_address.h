// HostAddress: a virtual address, of IPv4 or IPv6, on an interface of this host, by the kernel: rtnetlink for
// the address, NETLINK_SOCK_DIAG for what is left of connections, a ClaimSocket for what other hosts are
// told. Made, it needs CAP_NET_RAW, and used, CAP_NET_ADMIN. One loop.
#ifndef SLICE_CONTROL_PROXYD_HOST_ADDRESS_H
#define SLICE_CONTROL_PROXYD_HOST_ADDRESS_H

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/log.h"
#include "common/loop.h"
#include "control/proxyd/address_host.h"
#include "control/proxyd/claim_socket.h"

struct inet_diag_sockid;

namespace slice::proxy {

class HostAddress : public AddressHost {
 public:
  // `claimed`: ClaimSocket's. The interface may come and go. kIo: the sockets cannot be had.
  static Result<std::unique_ptr<HostAddress>> open(Loop& loop, IpAddress address, std::string interface,
                                                   ClaimSocket::Claimed claimed);
  ~HostAddress() override;
  HostAddress(const HostAddress&) = delete;
  HostAddress& operator=(const HostAddress&) = delete;

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
  // This kernel has no INET_DIAG_DESTROY: what is left of connections goes on answering clients.
  bool lacks_destroy() const { return lacks_destroy_; }

 private:
  HostAddress(IpAddress address, std::string interface);
  Status open_sockets();
  Status put_at(unsigned interface, unsigned seconds);
  Status take_off(unsigned interface);
  Status change(unsigned interface, std::uint16_t type, std::uint16_t flags, unsigned seconds);
  // Whether the address is where put() and put_at_loopback() put it, and as `unfit` where it is besides.
  void find_address(Look& seen);
  // Where the interface was made anew its index is another.
  void follow_interface();
  // Calls `seen` with each TCP connection of the address in one of these states, a bit each. 0, or an errno.
  int each_connection(unsigned states, const std::function<void(const inet_diag_sockid&)>& seen);
  std::vector<std::uint8_t> ip_header(IpAddress to, std::size_t payload) const;

  const IpAddress address_;
  const int family_;
  const std::uint8_t whole_;  // bits of a whole address
  const std::string interface_;
  std::unique_ptr<ClaimSocket> claims_;
  int route_ = -1, diag_ = -1, raw_ = -1;
  unsigned index_ = 0;  // of the interface; 0: there is none
  const unsigned loopback_;
  bool lacks_destroy_ = false;
  LogLimiter log_{1};
};

}  // namespace slice::proxy

#endif  // SLICE_CONTROL_PROXYD_HOST_ADDRESS_H
