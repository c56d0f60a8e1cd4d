// HostAddress: the virtual address on an interface of this host, by the kernel: rtnetlink for the address, an
// AF_PACKET socket for ARP, NETLINK_SOCK_DIAG for what is left of connections. Made, it needs CAP_NET_RAW,
// and used, CAP_NET_ADMIN. One loop.
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

struct inet_diag_sockid;

namespace slice::proxy {

class HostAddress : public AddressHost {
 public:
  // Called on the loop with the hardware address of another host that says by ARP that it has the address.
  using Claimed = std::function<void(const std::string& by)>;
  // `address`: host byte order. The interface may come and go. kIo: the sockets cannot be had.
  static Result<std::unique_ptr<HostAddress>> open(Loop& loop, std::uint32_t address, std::string interface,
                                                   Claimed claimed);
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
  HostAddress(Loop& loop, std::uint32_t address, std::string interface, Claimed claimed);
  Status open_sockets();
  Status put_at(unsigned interface, unsigned seconds);
  Status take_off(unsigned interface);
  Status change(unsigned interface, std::uint16_t type, std::uint16_t flags, unsigned seconds);
  // Whether the address is where put() and put_at_loopback() put it, and as `unfit` where it is besides.
  void find_address(Look& seen);
  // Where the interface was made anew its index is another.
  void follow_interface();
  void read_arp();
  // Calls `seen` with each TCP connection of the address in one of these states, a bit each. 0, or an errno.
  int each_connection(unsigned states, const std::function<void(const inet_diag_sockid&)>& seen);
  void send_arp(std::uint32_t sender);

  Loop& loop_;
  const std::uint32_t address_;
  const std::string interface_;
  const Claimed claimed_;
  int route_ = -1, arp_ = -1, diag_ = -1, raw_ = -1;
  unsigned index_ = 0;  // of the interface; 0: there is none
  const unsigned loopback_;
  std::array<std::uint8_t, 6> hardware_{};
  bool lacks_destroy_ = false;
  LogLimiter log_{1};
};

}  // namespace slice::proxy

#endif  // SLICE_CONTROL_PROXYD_HOST_ADDRESS_H
