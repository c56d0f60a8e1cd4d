// Device: what a block client reads and writes, as the front ends see it (nbd_server.h); and Devices, those
// that there are, by name.
#ifndef SLICE_BLOCK_DEVICE_H
#define SLICE_BLOCK_DEVICE_H

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/bytes.h"
#include "common/result.h"
#include "common/task.h"

namespace slice::block {

// One loop. Any number of operations may be under way at once, in any order; those that overlap and are under
// way together may be done in either order, but each as a whole. The caller keeps [offset, offset + length)
// inside the device. What fails has been told to nobody as done; it may have been done in part.
//
// Errors: kNoSpace and kQuota; kStale: the device is another opener's by now, for good; anything else is an
// input/output error.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::uint64_t size() const = 0;  // bytes, a multiple of 512
  // `into` is filled whole and outlives the task; what was never written is zeros.
  virtual Task<Status> read(std::uint64_t offset, ByteSpan into) = 0;
  // `durable`: it is when this ends; else when a flush() that began later has ended.
  virtual Task<Status> write(std::uint64_t offset, Buffer data, bool durable) = 0;
  // The same with so many zeros.
  virtual Task<Status> write_zeroes(std::uint64_t offset, std::uint64_t length, bool durable) = 0;
  // All that has ended before is durable.
  virtual Task<Status> flush() = 0;
};

class Devices {
 public:
  virtual ~Devices() = default;
  // Of those that are served, in order.
  virtual std::vector<std::string> names() const = 0;
  // Who has it open shares it with others of this process; it is closed with the last. kNotFound: there is
  // none of this name.
  virtual Task<Result<std::shared_ptr<Device>>> open(std::string name) = 0;
};

}  // namespace slice::block

#endif  // SLICE_BLOCK_DEVICE_H
