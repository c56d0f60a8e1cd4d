// Device: what a block client reads and writes, as the front ends see it (nbd_server.h); and Devices, those
// that there are, by name.
#ifndef SLICE_BLOCK_DEVICE_H
#define SLICE_BLOCK_DEVICE_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/bytes.h"
#include "common/result.h"
#include "common/task.h"

namespace slice::block {

// What becomes of the room on disks that zeros had: it stays theirs, or is given back.
enum class Room { kKept, kGivenBack };

inline Buffer zeros(std::size_t size) {
  Buffer out(size);
  std::ranges::fill(out.span(), std::uint8_t{0});
  return out;
}

// A run of a device's bytes: as they were written, or a hole, which reads as zeros and takes no room on
// disks.
struct Extent {
  std::uint64_t length = 0;
  bool hole = false;
  bool operator==(const Extent&) const = default;
};
// Puts it behind the others, of which the last may grow.
inline void append(std::vector<Extent>& extents, Extent extent) {
  if (extent.length == 0) return;
  if (!extents.empty() && extents.back().hole == extent.hole) {
    extents.back().length += extent.length;
  } else {
    extents.push_back(extent);
  }
}

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
  // Which opening of the volume this is, of any host: the next one has the next number. 0: they are not
  // counted.
  virtual std::uint64_t opening() const { return 0; }
  // `into` is filled whole and outlives the task; what was never written is zeros.
  virtual Task<Status> read(std::uint64_t offset, ByteSpan into) = 0;
  // `durable`: it is when this ends; else when a flush() that began later has ended.
  virtual Task<Status> write(std::uint64_t offset, Buffer data, bool durable) = 0;
  // The same with so many zeros.
  virtual Task<Status> write_zeroes(std::uint64_t offset, std::uint64_t length, bool durable, Room room) = 0;
  // All that has ended before is durable.
  virtual Task<Status> flush() = 0;
  // Whether it knows its holes; and what is there from `offset` on, in order: of at least one byte, and at
  // most of [offset, offset + length). What is called a hole reads as zeros; what is not may be one all the
  // same.
  virtual bool knows_holes() const { return false; }
  virtual Task<Result<std::vector<Extent>>> extents(std::uint64_t /*offset*/, std::uint64_t length) {
    co_return std::vector{Extent{length, false}};
  }
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
