// What of a server's metrics the page shows, and what it did between two readings of them.
#ifndef SLICE_CONTROL_WEBD_FIGURES_H
#define SLICE_CONTROL_WEBD_FIGURES_H

#include <optional>
#include <string_view>

#include "common/loop.h"

namespace slice::webd {

// Counters since the server's start (docs/metrics.md), but for the memory.
struct Figures {
  double reads = 0, writes = 0, names = 0;  // NFS calls: READ; WRITE and COMMIT; all others
  double failures = 0;
  double seconds = 0;  // that these calls took, together
  double by_xdp = 0;   // of a proxy: requests that XDP sent on; the calls above are user space's
  double cpu_seconds = 0;

  double calls() const { return reads + writes + names; }
};
// Lines of other metrics, and what is no metric, are passed over.
Figures figures_of(std::string_view metrics);

// A second's worth.
struct Rates {
  double reads = 0, writes = 0, names = 0, failures = 0, by_xdp = 0;
  double latency = 0;  // seconds a call; 0: there was none
  double cpu = 0;      // processors
};
// Nothing where the server was started anew in between, or no time has passed.
std::optional<Rates> rates_between(const Figures& before, const Figures& after, Duration time);

}  // namespace slice::webd

#endif  // SLICE_CONTROL_WEBD_FIGURES_H
