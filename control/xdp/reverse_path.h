// The kernel's settings of interfaces that a proxy relies on. Whether the kernel keeps forged source
// addresses out of an interface, as its settings under /proc/sys/net/ipv4/conf say: what the XDP program
// passes up, and all UDP where there is none, is checked by nobody else.
#ifndef SLICE_CONTROL_XDP_REVERSE_PATH_H
#define SLICE_CONTROL_XDP_REVERSE_PATH_H

#include <string>
#include <vector>

namespace slice::proxy {

// What is wrong with these interfaces, for an operator: "rp_filter is not 1: eth0=0 eth1=2; does not forward:
// eth2", or nothing. An interface that does not forward has its UDP in user space, since the XDP program may
// not ask the routes there (`xdp`: whether there is one). Reads the settings anew each time. An interface
// that is not there is left out.
std::string reverse_path_warnings(const std::vector<std::string>& interfaces, bool xdp,
                                  const std::string& settings = "/proc/sys/net/ipv4/conf");

// The same of IPv6, which has no rp_filter: "does not forward IPv6: eth2", or nothing. For a host with the
// XDP program and a virtual address of IPv6.
std::string ipv6_warnings(const std::vector<std::string>& interfaces,
                          const std::string& settings = "/proc/sys/net/ipv6/conf");

// What is wrong with an interface where several proxies serve one address (docs/proxy.md): the kernel would
// answer ARP for an address that is at the loopback interface, or name it in questions of its own, and
// clients take this host for the one that has it. "net.ipv4.conf.eth0.arp_ignore is 0, not 1", or nothing.
std::string arp_warnings(const std::string& interface,
                         const std::string& settings = "/proc/sys/net/ipv4/conf");

}  // namespace slice::proxy

#endif  // SLICE_CONTROL_XDP_REVERSE_PATH_H
