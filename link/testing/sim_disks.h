// SimDisks: volumes in memory that take their time, and lose what is not flushed when they are closed or
// their host is killed: of each sector either state stays.
#ifndef SLICE_LINK_TESTING_SIM_DISKS_H
#define SLICE_LINK_TESTING_SIM_DISKS_H

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "block/device.h"
#include "common/manual_loop.h"

namespace slice::link::testing {

class SimDisks : public block::Devices {
 public:
  SimDisks(ManualLoop& loop, unsigned seed) : loop_(loop), random_(seed) {}

  struct Disk {
    std::vector<std::uint8_t> now, durable;
    std::uint64_t openings = 0;
    int writes = 0, flushes = 0;
  };
  void make(const std::string& name, std::size_t size) {
    disks[name] = std::make_shared<Disk>();
    disks[name]->now.resize(size);
    disks[name]->durable.resize(size);
  }
  std::vector<std::string> names() const override { return {}; }
  Task<Result<std::shared_ptr<block::Device>>> open(std::string name) override {
    co_await pause();
    if (!disks.contains(name)) co_return fail(Errc::kNotFound, "no disk {}", name);
    auto shared = open_[name].lock();
    if (shared == nullptr || !shared->alive) {
      shared = std::make_shared<Device>(*this, disks[name]);
      open_[name] = shared;
    }
    co_return std::shared_ptr<block::Device>(std::move(shared));
  }
  // The process that had them open is killed.
  void kill() {
    for (const auto& [name, device] : open_) {
      if (const auto alive = device.lock()) alive->die();
    }
    open_.clear();
  }
  // Another host opens it.
  void open_elsewhere(const std::string& name) { ++disks[name]->openings; }

  Duration shortest = std::chrono::microseconds(50), longest = std::chrono::microseconds(400);
  std::map<std::string, std::shared_ptr<Disk>> disks;

 private:
  class Device : public block::Device {
   public:
    Device(SimDisks& of, std::shared_ptr<Disk> disk)
        : of_(of), disk_(std::move(disk)), opening_(++disk_->openings) {}
    ~Device() override { die(); }
    void die() {
      if (!std::exchange(alive, false)) return;
      for (std::size_t at = 0; at < disk_->now.size(); at += 512) {
        const std::size_t size = std::min<std::size_t>(512, disk_->now.size() - at);
        const bool kept = of_.random_() % 2 == 0;
        std::copy_n((kept ? disk_->now : disk_->durable).data() + at, size,
                    (kept ? disk_->durable : disk_->now).data() + at);
      }
    }
    std::uint64_t size() const override { return disk_->now.size(); }
    std::uint64_t opening() const override { return opening_; }
    Task<Status> read(std::uint64_t offset, ByteSpan into) override {
      co_await of_.pause();
      std::copy_n(disk_->now.data() + offset, into.size(), into.data());
      co_return Status{};
    }
    Task<Status> write(std::uint64_t offset, Buffer data, bool durable) override {
      co_await of_.pause();
      if (!alive) co_return fail(Errc::kIo, "dead");
      ++disk_->writes;
      std::copy_n(data.data(), data.size(), disk_->now.data() + offset);
      if (durable) std::copy_n(data.data(), data.size(), disk_->durable.data() + offset);
      co_return Status{};
    }
    Task<Status> write_zeroes(std::uint64_t offset, std::uint64_t length, bool durable,
                              block::Room) override {
      return write(offset, block::zeros(length), durable);
    }
    Task<Status> flush() override {
      auto snapshot = disk_->now;
      co_await of_.pause();
      if (!alive) co_return fail(Errc::kIo, "dead");
      ++disk_->flushes;
      // What was written durably meanwhile is not in it.
      for (std::size_t at = 0; at < snapshot.size(); ++at) {
        if (disk_->now[at] == snapshot[at]) disk_->durable[at] = snapshot[at];
      }
      co_return Status{};
    }
    bool alive = true;

   private:
    SimDisks& of_;
    const std::shared_ptr<Disk> disk_;
    const std::uint64_t opening_;
  };

  Task<void> pause() {
    const auto range = static_cast<std::uint64_t>((longest - shortest).count()) + 1;
    co_await loop_.sleep(shortest + Duration(static_cast<std::int64_t>(random_() % range)));
  }

  ManualLoop& loop_;
  std::mt19937_64 random_;
  std::map<std::string, std::weak_ptr<Device>> open_;
};

}  // namespace slice::link::testing

#endif  // SLICE_LINK_TESTING_SIM_DISKS_H
