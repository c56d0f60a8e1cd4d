#include "link/initiator.h"

#include <algorithm>
#include <utility>

#include "link/frame.h"

namespace slice::link {
namespace {

// For the first session of a volume: NBD's clients wait for so long at most.
constexpr Duration kOpensWithin = std::chrono::seconds(20);

}  // namespace

Initiator::Initiator(Loop& loop, FramePort& port, Address target, Metrics& metrics, Options options)
    : loop_(loop),
      port_(port),
      target_(target),
      options_(std::move(options)),
      key_(options_.key),
      metrics_(metrics),
      random_(options_.seed),
      opening_(loop) {
  port_.set_taker([this](const Address&, ByteView bytes) { take(bytes); });
}

Initiator::~Initiator() {
  close();
  port_.set_taker({});
}

void Initiator::close() {
  for (const auto& [name, device] : devices_) device->close();
}

void Initiator::take(ByteView bytes) {
  const auto frame = decode(bytes);
  if (frame) {
    for (const auto& [name, device] : devices_) {
      const auto keep = device;  // while it takes it
      if (keep->take(*frame, bytes)) return;
    }
  }
  metrics_.forged.add();
}

Task<Result<std::shared_ptr<block::Device>>> Initiator::open(std::string name) {
  const auto one = co_await opening_.lock();
  if (const auto found = devices_.find(name); found != devices_.end()) {
    if (found->second->taken_away())
      co_return fail(Errc::kStale, "volume {}: it is another opener's: SIGHUP, or a restart, takes it back",
                     name);
    co_return std::shared_ptr<block::Device>(found->second);
  }
  const bool known =
      options_.volumes.empty() || std::ranges::find(options_.volumes, name) != options_.volumes.end();
  if (!known || name.empty() || name.size() > kMostName)
    co_return fail(Errc::kNotFound, "volume {} is not served here", name);
  auto device = std::make_shared<RemoteDevice>(
      loop_, port_, target_, key_, metrics_,
      RemoteDevice::Options{.client = options_.client,
                            .volume = name,
                            .most_unflushed = options_.most_unflushed,
                            .patience = options_.patience,
                            .seed = options_.seed == 0 ? 0 : random_.number()});
  devices_[name] = device;
  const Duration wait =
      options_.patience == Duration(0) ? kOpensWithin : std::min(options_.patience, kOpensWithin);
  if (Status begun = co_await device->begin(wait); !begun) {
    device->close();
    devices_.erase(name);
    co_return fail(std::move(begun.error()));
  }
  co_return std::shared_ptr<block::Device>(std::move(device));
}

void Initiator::forgive() {
  std::erase_if(devices_, [](const auto& each) { return each.second->taken_away(); });
}

Task<Status> Initiator::flush_all() {
  Status first;
  const auto devices = devices_;
  for (const auto& [name, device] : devices) {
    Status flushed = co_await device->flush();
    if (!flushed && first) first = std::move(flushed);
  }
  co_return first;
}

}  // namespace slice::link
