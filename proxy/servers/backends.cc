#include "proxy/servers/backends.h"

#include <vector>

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;

constexpr Duration kTick = 250ms, kParkedRetry = 200ms;

}  // namespace

Backends::Backends(Plumbing plumbing, Tables tables, CallEncoder& encoder, Metrics& metrics,
                   ServerLatencies* latencies)
    : plumbing_(plumbing), tables_(tables), encoder_(encoder), metrics_(metrics), latencies_(latencies) {
  tick_ = plumbing_.loop.after(kTick, [this] { tick(); });
}

Backends::~Backends() {
  plumbing_.loop.cancel(tick_);
  plumbing_.loop.cancel(retry_);
}

Backend* Backends::backend_of(const Leg& leg) {
  if (leg.copies > 1) return backend_of_a_copy(leg);
  auto endpoint = tables_.endpoint_of(leg.site_class, leg.site);
  if (!endpoint && leg.site_by_hash) endpoint = tables_.endpoint_of(leg.site_class, *leg.site_by_hash);
  if (!endpoint) return nullptr;
  return &or_by_virtual_address(backend_at(*endpoint));
}

// A client may have no way to a server's address, e.g. by a firewall, where the ensemble's proxies have one.
Backend& Backends::or_by_virtual_address(Backend& direct) {
  if (!tables_.outside()) return direct;
  // Servers that see the client at an address of the other family would not know its calls again.
  const bool same_family = direct.endpoint().address.is_v4() == tables_.virtual_address.address.is_v4();
  if (same_family && direct.reachable()) return direct;
  return backend_at(tables_.virtual_address);
}

Backend& Backends::backend_at(rpc::Endpoint endpoint) {
  auto& backend = backends_[endpoint];
  if (backend == nullptr) {
    backend = std::make_unique<Backend>(plumbing_, endpoint, encoder_, *this, metrics_,
                                        latencies_ != nullptr ? &latencies_->of(endpoint) : nullptr);
  }
  return *backend;
}

// The first copy from leg.first_copy on whose server can be reached, as far as is known.
Backend* Backends::backend_of_a_copy(const Leg& leg) {
  std::vector<rpc::Endpoint> copies = tables_.copies_of(leg.site, leg.copies);
  if (copies.empty() && leg.site_by_hash) copies = tables_.copies_of(*leg.site_by_hash, leg.copies);
  for (std::size_t i = 0; i < copies.size(); ++i) {
    Backend& backend = backend_at(copies[(leg.first_copy + i) % copies.size()]);
    if (backend.reachable()) return &backend;
  }
  if (copies.empty()) return nullptr;
  return &or_by_virtual_address(backend_at(copies[leg.first_copy % copies.size()]));
}

void Backends::send(Leg& leg) {
  if (Backend* backend = backend_of(leg)) return backend->send(leg);
  parked_.push_back(leg);
  leg.set_waits(true);
  if (retry_ == TimerId::kNone) retry_ = plumbing_.loop.after(kParkedRetry, [this] { retry_parked(); });
}

BackendConnection* Backends::begin_upload(Leg& leg) {
  Backend* backend = backend_of(leg);
  return backend == nullptr ? nullptr : backend->begin_upload(leg);
}

void Backends::retry_parked() {
  retry_ = TimerId::kNone;
  IntrusiveList<Leg, LegTag> again;
  again.take_all(parked_);
  while (!again.empty()) {
    Leg* leg = again.front();
    leg->ListHook<LegTag>::unlink();
    send(*leg);
  }
}

void Backends::tick() {
  tick_ = plumbing_.loop.after(kTick, [this] { tick(); });
  std::vector<Backend*> all;  // what goes elsewhere may make others
  for (auto& [endpoint, backend] : backends_) all.push_back(backend.get());
  for (Backend* backend : all) backend->tick();
}

}  // namespace slice::proxy
