// CallerKey: as whom a call was made, as the caches of answered calls know it again. A retransmission carries
// the very same user; what another user of the same host is answered is not his.
#ifndef SLICE_SERVICE_CALLER_KEY_H
#define SLICE_SERVICE_CALLER_KEY_H

#include <compare>
#include <cstdint>

namespace slice::rpc {
struct Call;
}  // namespace slice::rpc

namespace slice::service {

// The stamp and the host's name are not part of it: they say nothing of what the caller may do.
struct CallerKey {
  std::uint32_t uid = 0, gid = 0;
  std::uint32_t groups = 0;  // CRC-32C of the flavor and the further groups, 4 bytes each, big-endian
  auto operator<=>(const CallerKey&) const = default;
};
CallerKey caller_key(const rpc::Call& call);

}  // namespace slice::service

#endif  // SLICE_SERVICE_CALLER_KEY_H
