// TargetSession: what one initiator has with the target: its requests by tag, each with the generation that
// came last, what was answered, and of a WRITE the blocks that have come.
//
// A tag is a slot that the initiator uses again when it has the answer, with a greater generation. So what
// comes of an older generation is a late copy, and does nothing; of the same one nothing is done twice but a
// READ. This is what keeps a delayed WRITE from undoing a newer one.
#ifndef SLICE_LINK_TARGET_SESSION_H
#define SLICE_LINK_TARGET_SESSION_H

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "block/device.h"
#include "common/loop.h"
#include "link/frame.h"
#include "link/frame_port.h"
#include "link/target_metrics.h"

namespace slice::link {

// The memory of requests of all sessions together, bytes.
class Memory {
 public:
  Memory(std::size_t most, Gauge& held) : most_(most), gauge_(held) {}
  bool take(std::size_t bytes) {
    if (bytes > free()) return false;
    set(held_ + bytes);
    return true;
  }
  void give_back(std::size_t bytes) { set(held_ - bytes); }
  std::size_t free() const { return most_ - held_; }

 private:
  void set(std::size_t held) {
    held_ = held;
    gauge_.set(held);
  }
  const std::size_t most_;
  Gauge& gauge_;
  std::size_t held_ = 0;
};

// What all sessions of a target share; it outlives them and what they have under way.
struct SessionShared {
  SessionShared(Loop& its_loop, Metrics& its_metrics, std::size_t most_bytes)
      : loop(its_loop), metrics(its_metrics), memory(most_bytes, metrics.held_bytes) {}
  Loop& loop;
  TargetMetrics metrics;
  Memory memory;
  std::size_t sessions = 0;
  std::size_t running = 0;  // requests, of all
};

// Requests of one client's sessions with a volume that have begun and not ended: before they have, nothing of
// its next session is begun.
class Lane {
 public:
  void begin() { ++running_; }
  void end();
  bool quiet() const { return running_ == 0; }
  // Resumes when quiet; one waiter.
  Task<void> until_quiet();

 private:
  std::size_t running_ = 0;
  std::unique_ptr<OneShot<bool>> waits_;
};

class TargetSession : public std::enable_shared_from_this<TargetSession> {
 public:
  struct Options {
    std::uint64_t number = 0;
    Keys keys;
    std::uint32_t block = 0, largest = 0;  // bytes
    std::uint16_t tags = 0;
    std::size_t bytes = 0;  // of requests, at most
    std::string name;       // for people
  };
  // One loop. The port outlives what the session sends; see retire().
  TargetSession(std::shared_ptr<SessionShared> shared, std::shared_ptr<Lane> lane, FramePort& port,
                const Address& peer, std::shared_ptr<block::Device> device, Options options);
  ~TargetSession();
  TargetSession(const TargetSession&) = delete;
  TargetSession& operator=(const TargetSession&) = delete;

  // An authentic frame with this session's number.
  void take(const Frame& frame);
  // Nothing more is begun or sent. What has begun goes on to its end.
  void retire();
  // Without an answer to it: credit for congestion, or the target's end.
  void tell(Op op);

  // Blocks that it may have outstanding.
  std::uint16_t credit() const;
  MonoTime used_at() const { return used_at_; }
  bool idle() const { return running_ == 0; }
  const Options& options() const { return options_; }
  const Address& peer() const { return peer_; }
  const std::shared_ptr<block::Device>& device() const { return device_; }

 private:
  enum class State : std::uint8_t { kUnused, kCollecting, kRunning, kDone };
  struct Slot {
    std::uint32_t generation = 0;
    State state = State::kUnused;
    Code answer = Code::kOk;
    bool durable = false;
    block::Room room = block::Room::kKept;  // of zeroes
    Op op{};
    std::uint64_t offset = 0;
    std::uint32_t count = 0;
    BlockMap blocks;  // of a WRITE: that have come; of a READ: that are wanted
    Buffer data;
    std::size_t held = 0;  // of memory
  };

  void take_request(const Frame& frame);
  bool begin(Slot& slot, const Frame& frame);
  bool fits(const Head& head) const;
  bool hold(Slot& slot, std::size_t bytes);
  void give_back(Slot& slot);
  void collect(Slot& slot, const Frame& frame);
  bool come_again(Slot& slot, const Frame& frame);
  bool read_again(Slot& slot, const Frame& frame);
  void run(Slot& slot, std::uint16_t tag);
  Task<void> carry_out(std::shared_ptr<TargetSession> self, std::uint16_t tag);
  Task<Status> ask_device(Slot& slot);
  void answer(const Slot& slot, std::uint16_t tag);
  void send_blocks(const Slot& slot, std::uint16_t tag);
  void send_wack(const Slot& slot, std::uint16_t tag);
  void send(Head head, ByteView data = {});
  std::size_t block_count(const Slot& slot) const { return blocks_of(slot.count, options_.block); }

  const std::shared_ptr<SessionShared> shared_;
  const std::shared_ptr<Lane> lane_;
  FramePort& port_;
  const Address peer_;
  const std::shared_ptr<block::Device> device_;
  const Options options_;
  std::vector<Slot> slots_;
  std::size_t held_ = 0, running_ = 0;
  MonoTime used_at_;
  bool retired_ = false;
};

}  // namespace slice::link

#endif  // SLICE_LINK_TARGET_SESSION_H
