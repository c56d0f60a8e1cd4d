// SimLink: a target, initiators and workers on one simulated wire. Each worker has a part of a volume for
// itself, knows every byte of it, and which of them are flushed.
#ifndef SLICE_LINK_TESTING_SIM_LINK_H
#define SLICE_LINK_TESTING_SIM_LINK_H

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/manual_loop.h"
#include "common/metrics.h"
#include "link/initiator.h"
#include "link/target.h"
#include "link/testing/sim_disks.h"
#include "link/testing/simulated_wire.h"

namespace slice::link::testing {

using namespace std::chrono_literals;

constexpr Key kSharedKey{7, 7, 7};
constexpr std::uint8_t kTargetPort = 1;

// Bytes of a volume that one worker has for itself.
struct Part {
  std::string volume;
  std::uint64_t begin = 0;
  std::vector<std::uint8_t> bytes;  // as they have to be
  std::vector<std::uint8_t> sure;   // not 0: flushed, and not written since
  Part(std::string of, std::uint64_t at, std::size_t size)
      : volume(std::move(of)), begin(at), bytes(size), sure(size, 1) {}
};

class Host {
 public:
  Host(ManualLoop& loop, SimulatedWire& wire, std::uint8_t number, InitiatorOptions options,
       std::size_t largest)
      : port_(wire.port(number, largest)),
        initiator(loop, *port_, Address(ByteView(&kTargetPort, 1)), metrics, std::move(options)) {}

  Metrics metrics;

 private:
  std::unique_ptr<SimulatedWire::Port> port_;

 public:
  Initiator initiator;
  std::size_t working = 0;
  bool stopped = false;
};

// Until it has done so many operations, or its host is no more.
class Worker {
 public:
  Worker(Part& part, unsigned seed, int operations) : part_(part), random_(seed), left_(operations) {}

  Task<void> run(std::shared_ptr<Host> host) {
    ++host->working;
    auto device = co_await host->initiator.open(part_.volume);
    while (device && left_ > 0 && !host->stopped) {
      const Status status = co_await step(**device);
      if (host->stopped) break;
      EXPECT_TRUE(status) << status.error().message;
      --left_;
    }
    if (!host->stopped) {
      EXPECT_TRUE(device);
    }
    --host->working;
  }
  // Whatever is not sure may be of any of the states that it had.
  Task<void> look_again(std::shared_ptr<Host> host) {
    ++host->working;
    auto device = co_await host->initiator.open(part_.volume);
    EXPECT_TRUE(device);
    std::vector<std::uint8_t> found(part_.bytes.size());
    EXPECT_TRUE(co_await (*device)->read(part_.begin, found));
    for (std::size_t at = 0; at < found.size(); ++at) {
      if (part_.sure[at] != 0 && found[at] != part_.bytes[at]) {
        ADD_FAILURE() << "byte " << at << " was flushed, and is another";
        break;
      }
    }
    part_.bytes = found;
    --host->working;
  }
  bool done() const { return left_ <= 0; }

 private:
  Task<Status> step(block::Device& device) {
    const std::uint64_t size = part_.bytes.size();
    std::uint64_t most = random_() % 8 == 0 ? size / 2 : 6000;
    const std::uint64_t at = random_() % size, length = 1 + random_() % std::min(most, size - at);
    switch (random_() % 8) {
      case 0:
      case 1:
      case 2:
        return read(device, at, length);
      case 3:
        return flush(device);
      case 4:
        return write(device, at, length, true, std::nullopt);
      case 5:
        return write(device, at, length, false,
                     random_() % 2 == 0 ? block::Room::kKept : block::Room::kGivenBack);
      default:
        return write(device, at, length, false, std::nullopt);
    }
  }
  Task<Status> read(block::Device& device, std::uint64_t at, std::uint64_t length) {
    std::vector<std::uint8_t> found(length);
    SLICE_CO_RETURN_IF_ERROR(co_await device.read(part_.begin + at, found));
    const bool same = std::ranges::equal(found, std::span(part_.bytes).subspan(at, length));
    EXPECT_TRUE(same) << part_.volume << " " << at << " " << length;
    co_return Status{};
  }
  Task<Status> write(block::Device& device, std::uint64_t at, std::uint64_t length, bool durable,
                     std::optional<block::Room> zeroes) {
    Buffer data(length);
    for (std::uint8_t& byte : data.span()) byte = zeroes ? 0 : static_cast<std::uint8_t>(random_());
    std::fill_n(part_.sure.begin() + static_cast<std::ptrdiff_t>(at), length, std::uint8_t{0});
    const Buffer copy = data.clone();
    Status status = zeroes ? co_await device.write_zeroes(part_.begin + at, length, durable, *zeroes)
                           : co_await device.write(part_.begin + at, std::move(data), durable);
    if (!status) co_return status;
    std::ranges::copy(copy.view(), part_.bytes.begin() + static_cast<std::ptrdiff_t>(at));
    if (durable) std::fill_n(part_.sure.begin() + static_cast<std::ptrdiff_t>(at), length, std::uint8_t{1});
    co_return Status{};
  }
  Task<Status> flush(block::Device& device) {
    SLICE_CO_RETURN_IF_ERROR(co_await device.flush());
    std::ranges::fill(part_.sure, std::uint8_t{1});
    co_return Status{};
  }

  Part& part_;
  std::mt19937 random_;
  int left_;
};

class SimLink {
 public:
  explicit SimLink(unsigned seed) : wire(loop, seed), disks(loop, seed + 1), random(seed + 2) {
    start_target();
  }
  ~SimLink() {
    wire.watcher = {};  // which is of the test
    for (const auto& host : hosts) stop(*host);
    loop.advance(5s);
    target.reset();
    disks.kill();
    loop.advance(5s);
  }

  void start_target() {
    port = wire.port(kTargetPort);
    target = std::make_unique<Target>(loop, metrics, disks, target_options());
    target->serve(*port);
  }
  // As by kill -9: what it kept is lost, and nothing that it had begun is done.
  void kill_target() {
    disks.kill();
    target.reset();
    port.reset();
  }
  std::shared_ptr<Host> host(std::uint8_t number, InitiatorOptions options = {}, std::size_t largest = 1472) {
    options.key = kSharedKey;
    if (options.client.empty()) options.client = "host" + std::to_string(number);
    options.seed = random();
    hosts.push_back(std::make_shared<Host>(loop, wire, number, std::move(options), largest));
    return hosts.back();
  }
  static void stop(Host& host) {
    host.stopped = true;
    host.initiator.close();
  }
  TargetOptions target_options() { return {.keys = {kSharedKey}, .bytes = 64 << 20, .seed = random()}; }
  // Runs it to its end.
  template <class T>
  T wait(Task<T> task) {
    std::optional<T> value;
    spawn([](Task<T> running, std::optional<T>& into) -> Task<void> {
      into.emplace(co_await std::move(running));
    }(std::move(task), value));
    EXPECT_TRUE(loop.run_until([&] { return value.has_value(); }));
    return std::move(*value);
  }
  std::shared_ptr<block::Device> open(Host& host, const std::string& name) {
    auto device = wait(host.initiator.open(name));
    EXPECT_TRUE(device) << device.error().message;
    return device ? *device : nullptr;
  }
  std::uint64_t metric(std::string_view sample) { return metrics.counter(sample).value(); }

  ManualLoop loop;
  SimulatedWire wire;
  SimDisks disks;
  Metrics metrics;
  std::mt19937_64 random;
  std::unique_ptr<SimulatedWire::Port> port;
  std::unique_ptr<Target> target;
  std::vector<std::shared_ptr<Host>> hosts;
};

}  // namespace slice::link::testing

#endif  // SLICE_LINK_TESTING_SIM_LINK_H
