// Target: serves block devices to initiators of the link, over any number of ports.
//
// A client begins with a HELLO, under the shared key; the answer is a ticket, for which nothing is
// remembered. With the ticket it shakes hands: so whoever sends again what he has recorded, or has another's
// address, gets no session. Of a client's name and a volume there is one session: a newer one ends the older,
// and begins when all that the older had begun is done.
//
// Clients may be hostile: without the key nothing takes memory, with it no more than Options has.
#ifndef SLICE_LINK_TARGET_H
#define SLICE_LINK_TARGET_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "block/device.h"
#include "common/keys.h"
#include "common/loop.h"
#include "common/metrics.h"
#include "link/frame_port.h"

namespace slice::link {

struct TargetOptions {
  std::vector<Key> keys;                     // any of which a client may have; one at least
  std::size_t sessions = 32;                 // of all clients
  std::size_t session_bytes = 8 << 20;       // of one session's requests
  std::size_t bytes = 256 << 20;             // of all of them, those of ended sessions with them
  std::uint32_t largest = 1 << 20;           // request, bytes
  std::uint16_t tags = 128;                  // requests of a session at once
  Duration idle = std::chrono::minutes(10);  // without a frame: then a session ends
  Duration ticket_life = std::chrono::seconds(10);
  std::uint64_t seed = 0;  // of a simulation; 0: what nobody is to guess is the system's
};

class TargetCore;

class Target {
 public:
  using Options = TargetOptions;

  // One loop. Loop, metrics and devices outlive it, and the requests that it has under way at its end.
  Target(Loop& loop, Metrics& metrics, block::Devices& devices, Options options);
  // Nothing more is answered. Requests under way go on without it.
  ~Target();
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  // Serves there from now on, too. The port outlives it.
  void serve(FramePort& port);
  // Sessions that there are stay.
  void replace_keys(const std::vector<Key>& keys);
  // Tells its clients that it ends, and takes no more of them.
  void finish();

  std::size_t sessions() const;
  std::size_t running() const;  // requests

 private:
  const std::shared_ptr<TargetCore> core_;
};

}  // namespace slice::link

#endif  // SLICE_LINK_TARGET_H
