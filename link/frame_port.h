// FramePort: where frames of the link go out and come in: UDP, raw Ethernet (socket_port.h), or simulated
// (testing/simulated_wire.h). A frame may be lost, come twice, late, changed, or before an earlier one.
#ifndef SLICE_LINK_FRAME_PORT_H
#define SLICE_LINK_FRAME_PORT_H

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "common/bytes.h"

namespace slice::link {

// Of who has sent a frame, and whom one goes to: only the port knows what is in it.
class Address {
 public:
  static constexpr std::size_t kMost = 28;  // bytes: a sockaddr_in6
  Address() = default;
  explicit Address(ByteView bytes) : size_(std::min(bytes.size(), kMost)) {
    std::copy_n(bytes.begin(), size_, bytes_.begin());
  }
  ByteView view() const { return {bytes_.data(), size_}; }
  auto operator<=>(const Address&) const = default;

 private:
  std::array<std::uint8_t, kMost> bytes_{};
  std::size_t size_ = 0;
};

// One loop.
class FramePort {
 public:
  using Taker = std::function<void(const Address& from, ByteView frame)>;
  FramePort() = default;
  FramePort(const FramePort&) = delete;
  FramePort& operator=(const FramePort&) = delete;
  virtual ~FramePort() = default;

  // Who gets what comes in, from now on; an empty one: nobody. Never called from within send(). What was
  // handed over is valid until the call ends.
  virtual void set_taker(Taker taker) = 0;
  // Goes out with all others of this round of the loop, as a batch. Where the transmitter is full it is tried
  // again; where too much waits, it is lost.
  virtual void send(const Address& to, Buffer frame) = 0;
  // Of a frame, bytes, head included.
  virtual std::size_t largest() const = 0;
  // How many frames with blocks of so many bytes may come in at once and none is lost, about.
  virtual std::size_t room(std::size_t block) const = 0;
  // For people.
  virtual std::string name_of(const Address& address) const = 0;
};

// The block for a port: the largest power of two that fits a frame, kSmallestBlock where none does.
std::size_t block_for(const FramePort& port);

}  // namespace slice::link

#endif  // SLICE_LINK_FRAME_PORT_H
