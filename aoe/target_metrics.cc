#include "aoe/target_metrics.h"

namespace slice::aoe {
namespace {

constexpr std::array<const char*, static_cast<std::size_t>(Refusal::kKinds)> kReasons{
    "malformed", "stranger", "elsewhere", "crowded", "repeated", "range", "unknown"};
constexpr std::array<const char*, static_cast<std::size_t>(Request::kKinds)> kRequests{
    "read", "write", "flush", "identify", "query"};

}  // namespace

std::string_view text_of(Refusal why) {
  return kReasons.at(static_cast<std::size_t>(why));
}

TargetMetrics::TargetMetrics(Metrics& metrics)
    : frames(metrics.counter("aoe_frames_total", "frames of ATA over Ethernet that came in, good or bad")),
      operations(metrics.counter("aoe_operations_total",
                                 "reads and writes of volumes that requests by AoE were put together to")),
      failed(metrics.counter("aoe_failures_total", "requests by AoE that were answered with an error")),
      read_bytes(metrics.counter("aoe_read_bytes_total", "bytes that clients of AoE have read")),
      written_bytes(metrics.counter("aoe_written_bytes_total", "bytes that clients of AoE have written")) {
  for (std::size_t i = 0; i < refused_.size(); ++i) {
    refused_[i] =
        &metrics.counter("aoe_frames_refused_total", "frames of AoE by which nothing was done, by why",
                         {{"why", kReasons.at(i)}});
  }
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    requests_[i] =
        &metrics.counter("aoe_requests_total", "requests by AoE, by kind", {{"request", kRequests.at(i)}});
  }
}

}  // namespace slice::aoe
