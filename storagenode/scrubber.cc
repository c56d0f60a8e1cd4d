#include "storagenode/scrubber.h"

#include <algorithm>

#include "common/log.h"

namespace slice::storagenode {
namespace {

constexpr std::size_t kBatch = 256;                         // objects listed at once
constexpr Duration kStep = std::chrono::milliseconds(100);  // how soon stop() is noticed

}  // namespace

void Scrubber::start() {
  running_ = true;
  spawn(run());
}

Task<void> Scrubber::stop() {
  stopping_ = true;
  while (running_) co_await store_.loop().sleep(std::chrono::milliseconds(10));
}

Task<void> Scrubber::pause(Duration time) {
  while (time > Duration{0} && !stopping_) {
    Duration step = std::min(time, kStep);
    co_await store_.loop().sleep(step);
    time -= step;
  }
}

Task<void> Scrubber::run() {
  co_await pause(std::chrono::minutes(1));
  while (!stopping_) {
    co_await pass();
    if (!stopping_) store_.figures().scrub_passes.add();
    co_await pause(options_.between_passes);
  }
  running_ = false;
}

Task<void> Scrubber::pass() {
  std::optional<ObjectName> after;
  while (!stopping_) {
    auto listed = co_await store_.list(after, kBatch);
    if (!listed) {
      log_warning("scrub cannot list objects: {}", listed.error().message);
      co_return;
    }
    for (const auto& name : listed->objects) {
      if (!stopping_) co_await scrub_object(name);
    }
    if (listed->end || listed->objects.empty()) co_return;
    after = listed->objects.back();
    co_await pause(std::chrono::milliseconds(1));
  }
}

Task<void> Scrubber::scrub_object(ObjectName name) {
  auto segments = co_await store_.segments(name);
  if (!segments) co_return;  // logged and counted where it failed
  for (std::uint64_t segment : *segments) {
    for (std::size_t granule = 0; granule < kGranulesPerSegment && !stopping_; ++granule) {
      auto bytes = co_await store_.scrub(name, segment, granule);
      std::uint64_t read = bytes ? *bytes : kGranule;  // what is corrupted was read, too
      if (read == 0) continue;
      if (bytes) store_.figures().scrubbed_bytes.add(read);
      co_await pause(Duration{static_cast<std::int64_t>(read * 1'000'000'000 / options_.bytes_per_second)});
    }
  }
}

}  // namespace slice::storagenode
