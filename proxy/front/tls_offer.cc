#include "proxy/front/tls_offer.h"

namespace slice::proxy {
namespace {

Counter& connections(Metrics& metrics, const char* certificate) {
  return metrics.counter(
      "proxy_tls_connections_total",
      "clients' connections that went over to TLS, by whether the client showed a certificate",
      {{"certificate", certificate}});
}

}  // namespace

TlsOffer::TlsOffer(const rpc::Tls* tls, Metrics& metrics)
    : tls_(tls),
      established_(connections(metrics, "no")),
      mutual_(connections(metrics, "yes")),
      failed_(
          metrics.counter("proxy_tls_failures_total",
                          "clients' connections that ended since TLS could not be begun, or was broken")) {}

void TlsOffer::count_failed(rpc::Endpoint client, std::string_view why) {
  failed_.add();
  if (log_.allow()) log_warning("TLS with a client failed: {} from={}", why, rpc::to_string(client));
}

}  // namespace slice::proxy
