#include "proxy/calls/services.h"

namespace slice::proxy {

Services::Services(Plumbing plumbing_in, Servers& servers_in, Tables tables_in, AttributeCache& cache_in,
                   CallEncoder& encoder_in, MapCache& maps_in, Metrics& metrics_in,
                   service::Tracer* tracer_in)
    : plumbing(plumbing_in),
      servers(servers_in),
      tables(tables_in),
      cache(cache_in),
      encoder(encoder_in),
      maps(maps_in),
      metrics(metrics_in),
      tracer(tracer_in) {
  for (std::uint32_t i = 0; i < SLICE_OUTCOME_COUNT; ++i) {
    const char* name = slice_outcome_name(i);
    outcomes_[i] = &metrics.counter(
        "proxy_user_outcomes_total",
        "calls that user space routed (TCP, and what XDP passed up), by what was done with them",
        {{"outcome", name ? name : "OTHER"}});
  }
  for (std::uint32_t i = 1; i < nfs3::kProcedureCount; ++i) {
    latencies_[i] = &metrics.histogram("proxy_latency_seconds",
                                       "time from when user space could read a call's head to when its whole "
                                       "reply was given to the client's connection, by procedure",
                                       {{"procedure", nfs3::procedure_name(i)}});
  }
}

}  // namespace slice::proxy
