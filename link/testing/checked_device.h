// CheckedDevice, for fuzzing: takes its time, keeps nothing, and ends the program where it is asked for what
// is beyond its end; and OneDevice, which has it under any name.
#ifndef SLICE_LINK_TESTING_CHECKED_DEVICE_H
#define SLICE_LINK_TESTING_CHECKED_DEVICE_H

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "block/device.h"

namespace slice::link::testing {

inline void require(bool condition) {
  if (!condition) std::abort();
}

class CheckedDevice : public block::Device {
 public:
  static constexpr std::size_t kSize = 64 << 10;
  explicit CheckedDevice(Loop& loop) : loop_(loop) {}
  std::uint64_t size() const override { return kSize; }
  Task<Status> read(std::uint64_t offset, ByteSpan into) override { return take(offset, into.size()); }
  Task<Status> write(std::uint64_t offset, Buffer data, bool) override { return take(offset, data.size()); }
  Task<Status> write_zeroes(std::uint64_t offset, std::uint64_t length, bool, block::Room) override {
    return take(offset, length);
  }
  Task<Status> flush() override { return take(0, 0); }

 private:
  Task<Status> take(std::uint64_t offset, std::uint64_t length) {
    require(offset <= kSize && length <= kSize - offset);
    co_await loop_.sleep(std::chrono::microseconds(offset % 64));
    co_return Status{};
  }
  Loop& loop_;
};

class OneDevice : public block::Devices {
 public:
  explicit OneDevice(Loop& loop) : loop_(loop) {}
  std::vector<std::string> names() const override { return {"a"}; }
  Task<Result<std::shared_ptr<block::Device>>> open(std::string) override {
    co_return std::make_shared<CheckedDevice>(loop_);
  }

 private:
  Loop& loop_;
};

}  // namespace slice::link::testing

#endif  // SLICE_LINK_TESTING_CHECKED_DEVICE_H
