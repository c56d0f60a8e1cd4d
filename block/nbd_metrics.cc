#include "block/nbd_metrics.h"

#include <algorithm>

namespace slice::block {
namespace {

constexpr std::array<const char*, static_cast<std::size_t>(NbdRefusal::kKinds)> kRefusals{
    "stranger", "crowded", "slow", "malformed", "too_many_options", "unknown_export", "cannot_open", "tls"};
constexpr std::array<const char*, static_cast<std::size_t>(NbdEnd::kKinds)> kEnds{"malformed", "stalled"};
constexpr std::array kCommandNames{"read", "write", "flush", "write_zeroes", "trim", "block_status", "other"};
constexpr std::array kErrorNames{"EIO", "EINVAL", "ENOSPC", "EOVERFLOW", "ESHUTDOWN"};

}  // namespace

std::string_view text_of(NbdRefusal why) {
  return kRefusals.at(static_cast<std::size_t>(why));
}

NbdMetrics::NbdMetrics(Metrics& metrics)
    : connections(metrics.gauge("nbd_connections", "block clients' connections open now")),
      read(metrics.counter("nbd_read_bytes_total", "bytes that block clients have read")),
      written(metrics.counter("nbd_written_bytes_total", "bytes that block clients have written")) {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    requests_[i] = &metrics.counter("nbd_requests_total", "block clients' requests, by command",
                                    {{"command", kCommandNames[i]}});
  }
  for (std::size_t i = 0; i < errors_.size(); ++i) {
    errors_[i] = &metrics.counter("nbd_failures_total",
                                  "block clients' requests that were answered with an error, by the error",
                                  {{"error", kErrorNames[i]}});
  }
  for (std::size_t i = 0; i < refused_.size(); ++i) {
    refused_[i] = &metrics.counter("nbd_handshakes_refused_total",
                                   "what block clients were refused before they had a device, by why",
                                   {{"why", kRefusals[i]}});
  }
  for (std::size_t i = 0; i < ended_.size(); ++i) {
    ended_[i] = &metrics.counter("nbd_connections_ended_total",
                                 "block clients' connections with a device that the server ended, by why: "
                                 "malformed, stalled (others needed what it held)",
                                 {{"why", kEnds[i]}});
  }
}

void NbdMetrics::count(nbd::Command command) {
  const auto index = std::ranges::find(kCommands, command) - kCommands.begin();
  requests_[static_cast<std::size_t>(index)]->add();
}

void NbdMetrics::count(nbd::ErrorNumber error) {
  const auto* const found = std::ranges::find(kErrors, error);
  if (found != kErrors.end()) errors_[static_cast<std::size_t>(found - kErrors.begin())]->add();
}

}  // namespace slice::block
