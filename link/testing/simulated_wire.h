// SimulatedWire: ports whose frames are lost, come twice, late, changed and out of order, by a seed, on
// simulated time. Every frame may be recorded, and put in again by hand.
#ifndef SLICE_LINK_TESTING_SIMULATED_WIRE_H
#define SLICE_LINK_TESTING_SIMULATED_WIRE_H

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "common/manual_loop.h"
#include "link/frame_port.h"

namespace slice::link::testing {

struct Faults {
  double lost = 0, twice = 0, changed = 0;  // of all frames, 0 to 1
  Duration shortest = std::chrono::microseconds(20), longest = std::chrono::microseconds(60);
  double late = 0;  // of all frames, by up to
  Duration latest = std::chrono::milliseconds(500);
};

class SimulatedWire {
 public:
  using Watcher = std::function<bool(std::uint8_t from, std::uint8_t to, ByteView frame)>;

  SimulatedWire(ManualLoop& loop, unsigned seed) : loop_(loop), random_(seed) {}

  class Port : public FramePort {
   public:
    Port(SimulatedWire& wire, std::uint8_t number, std::size_t largest, std::size_t room)
        : wire_(wire), number_(number), largest_(largest), room_(room) {
      wire_.ports_[number] = this;
    }
    ~Port() override { wire_.ports_.erase(number_); }
    void set_taker(Taker taker) override { taker_ = std::move(taker); }
    void send(const Address& to, Buffer frame) override { wire_.carry(number_, to.view()[0], frame.view()); }
    std::size_t largest() const override { return largest_; }
    std::size_t room(std::size_t block) const override { return room_ / block; }
    std::string name_of(const Address& address) const override { return std::to_string(address.view()[0]); }
    Address address() const { return Address(ByteView(&number_, 1)); }

   private:
    friend class SimulatedWire;
    SimulatedWire& wire_;
    const std::uint8_t number_;
    const std::size_t largest_, room_;
    Taker taker_;
  };

  std::unique_ptr<Port> port(std::uint8_t number, std::size_t largest = 1472, std::size_t room = 1 << 20) {
    return std::make_unique<Port>(*this, number, largest, room);
  }
  void deliver(std::uint8_t from, std::uint8_t to, ByteView frame) {
    const auto found = ports_.find(to);
    if (found == ports_.end() || !found->second->taker_) return;
    const auto taker = found->second->taker_;
    taker(Address(ByteView(&from, 1)), frame);
  }
  double dice() { return std::uniform_real_distribution<double>(0, 1)(random_); }

  Faults faults;
  Watcher watcher;  // false: the frame is lost
  std::uint64_t frames = 0;

 private:
  void carry(std::uint8_t from, std::uint8_t to, ByteView frame) {
    ++frames;
    if (watcher && !watcher(from, to, frame)) return;
    if (dice() < faults.lost) return;
    launch(from, to, frame);
    if (dice() < faults.twice) launch(from, to, frame);
  }
  void launch(std::uint8_t from, std::uint8_t to, ByteView frame) {
    auto copy = std::make_shared<Buffer>(frame);
    if (dice() < faults.changed && !copy->empty())
      copy->data()[static_cast<std::size_t>(dice() * static_cast<double>(copy->size()))] ^= 1;
    Duration delay = between(faults.shortest, faults.longest);
    if (dice() < faults.late) delay += between(Duration(0), faults.latest);
    loop_.after(delay, [this, from, to, copy] { deliver(from, to, copy->view()); });
  }
  Duration between(Duration least, Duration most) {
    return least + Duration(static_cast<std::int64_t>(dice() * static_cast<double>((most - least).count())));
  }

  ManualLoop& loop_;
  std::mt19937 random_;
  std::map<std::uint8_t, Port*> ports_;
};

}  // namespace slice::link::testing

#endif  // SLICE_LINK_TESTING_SIMULATED_WIRE_H
