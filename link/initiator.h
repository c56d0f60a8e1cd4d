// Initiator: raw volumes that a target of the link serves, as block devices of this process.
#ifndef SLICE_LINK_INITIATOR_H
#define SLICE_LINK_INITIATOR_H

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "block/device.h"
#include "common/keys.h"
#include "common/loop.h"
#include "common/metrics.h"
#include "common/task.h"
#include "link/frame_port.h"
#include "link/initiator_metrics.h"
#include "link/randomness.h"
#include "link/remote_device.h"

namespace slice::link {

struct InitiatorOptions {
  Key key{};
  // As which the target knows this host: who comes by the same name ends the sessions of who came before.
  std::string client;
  std::vector<std::string> volumes;         // that there are; none: whichever the target has
  Duration patience = Duration(0);          // how long the target is waited for; 0: for ever
  std::uint64_t most_unflushed = 64 << 20;  // bytes of a volume
  std::uint64_t seed = 0;                   // Randomness
};

class Initiator : public block::Devices {
 public:
  using Options = InitiatorOptions;

  // One loop. All outlive it, and it outlives its devices.
  Initiator(Loop& loop, FramePort& port, Address target, Metrics& metrics, Options options);
  ~Initiator() override;

  std::vector<std::string> names() const override { return options_.volumes; }
  // A volume that was opened stays open: what is not flushed is written again whenever the target needs it.
  // kUnavailable: the target does not answer.
  Task<Result<std::shared_ptr<block::Device>>> open(std::string name) override;

  // For handshakes from now on.
  void set_key(const Key& key) { key_ = key; }
  // Volumes that were taken away may be opened again.
  void forgive();
  // The first failure, when all were tried.
  Task<Status> flush_all();
  // Tells the target; operations end, and fail from then on.
  void close();

 private:
  void take(ByteView bytes);

  Loop& loop_;
  FramePort& port_;
  const Address target_;
  const Options options_;
  Key key_;
  InitiatorMetrics metrics_;
  Randomness random_;
  AsyncMutex opening_;
  std::map<std::string, std::shared_ptr<RemoteDevice>> devices_;
};

}  // namespace slice::link

#endif  // SLICE_LINK_INITIATOR_H
