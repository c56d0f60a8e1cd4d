#include "proxy/calls/services.h"

namespace slice::proxy {

Services::Services(Plumbing plumbing_in, Servers& servers_in, Tables tables_in, AttributeCache& cache_in,
                   CallEncoder& encoder_in, MapCache& maps_in, Metrics& metrics_in)
    : plumbing(plumbing_in),
      servers(servers_in),
      tables(tables_in),
      cache(cache_in),
      encoder(encoder_in),
      maps(maps_in),
      metrics(metrics_in) {
  for (std::uint32_t i = 0; i < SLICE_OUTCOME_COUNT; ++i) {
    const char* name = slice_outcome_name(i);
    outcomes_[i] =
        &metrics.counter(fmt::format("proxy_user_outcomes_total{{outcome=\"{}\"}}", name ? name : "OTHER"));
  }
}

}  // namespace slice::proxy
