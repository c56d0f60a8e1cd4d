#include "link/target_metrics.h"

#include <algorithm>

namespace slice::link {
namespace {

constexpr std::array<const char*, static_cast<std::size_t>(Refusal::kKinds)> kReasons{
    "malformed", "forged", "no_session", "stale", "ticket", "crowded", "volume"};

}  // namespace

std::string_view text_of(Refusal why) {
  return kReasons.at(static_cast<std::size_t>(why));
}

TargetMetrics::TargetMetrics(Metrics& metrics)
    : sessions(metrics.gauge("link_sessions", "sessions of initiators of the link that are open")),
      held_bytes(metrics.gauge("link_held_bytes", "memory of requests that came over the link, bytes")),
      frames(metrics.counter("link_frames_total", "frames of the link that came in, good or bad")),
      opened(metrics.counter("link_sessions_opened_total", "sessions of the link that began")),
      ended(metrics.counter("link_sessions_ended_total",
                            "sessions of the link that ended: left, replaced, idle, or at the end of the "
                            "program")),
      repeated(
          metrics.counter("link_requests_repeated_total",
                          "frames of the link of requests that had come before, and were answered again")),
      failed(
          metrics.counter("link_failures_total", "requests over the link that were answered with an error")),
      read_bytes(metrics.counter("link_read_bytes_total", "bytes that initiators of the link have read")),
      written_bytes(
          metrics.counter("link_written_bytes_total", "bytes that initiators of the link have written")) {
  for (std::size_t i = 0; i < refused_.size(); ++i) {
    refused_[i] =
        &metrics.counter("link_frames_refused_total", "frames of the link by which nothing was done, by why",
                         {{"why", kReasons.at(i)}});
  }
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    requests_[i] = &metrics.counter("link_requests_total", "requests over the link that were begun, by kind",
                                    {{"request", name_of(kRequests.at(i))}});
  }
}

void TargetMetrics::count_request(Op op) {
  const auto index = std::ranges::find(kRequests, op) - kRequests.begin();
  if (static_cast<std::size_t>(index) < requests_.size()) requests_[static_cast<std::size_t>(index)]->add();
}

}  // namespace slice::link
