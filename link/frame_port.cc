#include "link/frame_port.h"

#include <bit>

#include "link/frame.h"

namespace slice::link {

std::size_t block_for(const FramePort& port) {
  const std::size_t most = port.largest() > kHeadSize ? port.largest() - kHeadSize : 0;
  return std::clamp(std::bit_floor(most), kSmallestBlock, kLargestBlock);
}

}  // namespace slice::link
