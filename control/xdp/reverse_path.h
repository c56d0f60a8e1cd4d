// Whether the kernel keeps forged source addresses out of an interface, as its settings under
// /proc/sys/net/ipv4/conf say: what the XDP program passes up, and all UDP where there is none, is checked by
// nobody else.
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

}  // namespace slice::proxy

#endif  // SLICE_CONTROL_XDP_REVERSE_PATH_H
