// Whether this host can have an XDP program: asks the kernel, and leaves nothing loaded.
#ifndef SLICE_CONTROL_SLICECTL_XDP_SUPPORT_H
#define SLICE_CONTROL_SLICECTL_XDP_SUPPORT_H

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace slice::slicectl {

// Loads the smallest program for packets of several buffers, as the proxy's is, and gives it up again. Why
// the kernel refused it; nothing where it did not.
std::optional<std::string> try_to_load_xdp();

// Whether their drivers take a native program, by the netdev family of netlink, which kernels have from 6.3
// on. Interfaces of which the kernel does not tell are left out.
std::map<std::string, bool> ask_native_xdp(const std::vector<std::string>& interfaces);

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_XDP_SUPPORT_H
