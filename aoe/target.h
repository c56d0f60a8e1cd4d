// Target: serves block devices by ATA over Ethernet (wire.h), as the Linux kernel's driver `aoe` uses them,
// over any number of ports.
//
// The protocol has no keys and no sessions: whoever can send frames with a client's address can do all that
// the client can, and a frame that the network delivers late does late what it says. So it is for networks
// of trusted hosts, and clients are named by their addresses. It has no word either by which clients would
// have data made durable that Linux used: each write is durable when it is answered.
//
// What clients send at once is done at once: neighbours of one kind are one operation, and those of a block
// of 4 KiB wait for one another for a moment. Writes that overlap are done in the order that they came.
#ifndef SLICE_AOE_TARGET_H
#define SLICE_AOE_TARGET_H

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "aoe/wire.h"
#include "block/device.h"
#include "common/loop.h"
#include "common/metrics.h"
#include "link/frame_port.h"

namespace slice::aoe {

struct Disk {
  Place place;
  std::string volume;
};

// Of one frame, there and back; 0: it takes none.
std::size_t most_sectors(const link::FramePort& port);

struct TargetOptions {
  std::vector<Disk> disks;     // each at a place of its own
  std::size_t requests = 128;  // of one client to one disk at once: what is more is dropped, and comes again
  std::size_t together = 1 << 20;  // bytes at most of one operation
};

class TargetCore;

class Target {
 public:
  // One loop. Loop, metrics and devices outlive it, and the requests that it has under way at its end. A
  // volume is opened with the first request for it, and stays open.
  Target(Loop& loop, Metrics& metrics, block::Devices& devices, TargetOptions options);
  // Nothing more is answered. Requests under way go on without it.
  ~Target();
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  // Serves there from now on, too, these clients alone, and tells them so. The port outlives it.
  void serve(link::FramePort& port, std::vector<link::Address> clients);
  // Takes nothing more.
  void finish();
  std::size_t running() const;  // requests

 private:
  const std::shared_ptr<TargetCore> core_;
};

}  // namespace slice::aoe

#endif  // SLICE_AOE_TARGET_H
