// InitiatorMetrics: what an Initiator of the link counts.
#ifndef SLICE_LINK_INITIATOR_METRICS_H
#define SLICE_LINK_INITIATOR_METRICS_H

#include "common/metrics.h"

namespace slice::link {

struct InitiatorMetrics {
  // Which outlives it.
  explicit InitiatorMetrics(Metrics& metrics)
      : handshakes(metrics.counter("link_handshakes_total", "sessions that a target of the link has begun")),
        refused(metrics.counter("link_handshakes_refused_total",
                                "handshakes and sessions that a target of the link refused")),
        frames(metrics.counter("link_answers_total", "frames that came from a target of the link")),
        forged(metrics.counter("link_answers_refused_total",
                               "frames that came to an initiator of the link and are not its target's, or of "
                               "no request of now")),
        requests(metrics.counter("link_requests_sent_total", "requests to a target of the link")),
        timeouts(
            metrics.counter("link_timeouts_total",
                            "requests to a target of the link that were asked for again, or some of it")),
        blocks_again(metrics.counter("link_blocks_sent_again_total",
                                     "blocks of writes that were sent to a target of the link once more")),
        repeated_bytes(metrics.counter("link_repeated_bytes_total",
                                       "bytes that were acknowledged, lost by a target of the link with its "
                                       "memory, and written again")),
        unflushed_bytes(metrics.gauge("link_unflushed_bytes",
                                      "bytes that a target of the link has acknowledged and that may not be "
                                      "durable yet")),
        latency(metrics.histogram("link_request_seconds", "how long requests to a target of the link take")) {
  }
  Counter &handshakes, &refused, &frames, &forged, &requests, &timeouts, &blocks_again, &repeated_bytes;
  Gauge& unflushed_bytes;
  Histogram& latency;
};

}  // namespace slice::link

#endif  // SLICE_LINK_INITIATOR_METRICS_H
