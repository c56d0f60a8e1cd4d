// Services: what calls need of their worker.
#ifndef SLICE_PROXY_CALLS_SERVICES_H
#define SLICE_PROXY_CALLS_SERVICES_H

#include <array>

#include "common/metrics.h"
#include "proxy/calls/serving_time.h"
#include "proxy/servers/call_encoder.h"
#include "proxy/servers/plumbing.h"
#include "proxy/servers/servers.h"
#include "proxy/tables/attribute_cache.h"
#include "proxy/tables/layout_stamps.h"
#include "proxy/tables/map_cache.h"
#include "proxy/tables/tables.h"
#include "routing/place.h"
#include "service/tracer.h"
#include "wire/nfs3.h"

namespace slice::proxy {

class Services {
 public:
  // All of it outlives the services, and these every call. `tracer_in` may be null.
  Services(Plumbing plumbing_in, Servers& servers_in, Tables tables_in, AttributeCache& cache_in,
           CallEncoder& encoder_in, MapCache& maps_in, Metrics& metrics_in, service::Tracer* tracer_in);
  // One more call with this outcome, or a call of this procedure.
  void count(std::uint32_t outcome) { outcomes_[outcome % SLICE_OUTCOME_COUNT]->add(); }
  // A call of this procedure, which began then, has been answered.
  void count_latency(std::uint32_t procedure, MonoTime began) {
    if (procedure != 0)
      latencies_[procedure % nfs3::kProcedureCount]->observe(plumbing.loop.now_exactly() - began);
  }
  // What the handle of a request is stamped with. Who calls for himself has no use for attributes: servers
  // need not ask the authority for any, nor tell it of a WRITE before they answer it.
  std::uint64_t hint(FileId file) const {
    return encoder.own() ? slice_hint_encode(1, 0, 0) : cache.hint(file);
  }
  // Whether a proxy of the ensemble has to route the request, and this one is none.
  bool passes_on(const slice_request& request) const {
    return tables.outside() && routing::needs_member(*tables.config, request);
  }

  Plumbing plumbing;
  Servers& servers;
  Tables tables;
  AttributeCache& cache;
  CallEncoder& encoder;
  MapCache& maps;
  LayoutStamps stamps;
  Metrics& metrics;
  service::Tracer* const tracer;
  const ServingTime* serving = nullptr;  // none: it never ends
  // Whether what clients sent may be carried out.
  bool may_serve() const { return serving == nullptr || !serving->is_over(plumbing.loop.now()); }

 private:
  std::array<Counter*, SLICE_OUTCOME_COUNT> outcomes_{};
  std::array<Histogram*, nfs3::kProcedureCount> latencies_{};  // but for NULL's
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_CALLS_SERVICES_H
