// Services: what calls need of their worker.
#ifndef SLICE_PROXY_CALLS_SERVICES_H
#define SLICE_PROXY_CALLS_SERVICES_H

#include <array>

#include "common/metrics.h"
#include "proxy/servers/call_encoder.h"
#include "proxy/servers/plumbing.h"
#include "proxy/servers/servers.h"
#include "proxy/tables/attribute_cache.h"
#include "proxy/tables/layout_stamps.h"
#include "proxy/tables/map_cache.h"
#include "proxy/tables/tables.h"

namespace slice::proxy {

class Services {
 public:
  // All of it outlives the services, and these every call.
  Services(Plumbing plumbing_in, Servers& servers_in, Tables tables_in, AttributeCache& cache_in,
           CallEncoder& encoder_in, MapCache& maps_in, Metrics& metrics_in);
  // One more call with this outcome, or a call of this procedure.
  void count(std::uint32_t outcome) { outcomes_[outcome % SLICE_OUTCOME_COUNT]->add(); }

  Plumbing plumbing;
  Servers& servers;
  Tables tables;
  AttributeCache& cache;
  CallEncoder& encoder;
  MapCache& maps;
  LayoutStamps stamps;
  Metrics& metrics;

 private:
  std::array<Counter*, SLICE_OUTCOME_COUNT> outcomes_{};
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_CALLS_SERVICES_H
