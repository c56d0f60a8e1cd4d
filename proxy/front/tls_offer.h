// TlsOffer: what clients who ask for TLS over their connections (RFC 9289) get of one worker.
#ifndef SLICE_PROXY_FRONT_TLS_OFFER_H
#define SLICE_PROXY_FRONT_TLS_OFFER_H

#include <string_view>

#include "common/log.h"
#include "common/metrics.h"
#include "rpc/endpoint.h"
#include "rpc/tls.h"

namespace slice::proxy {

class TlsOffer {
 public:
  // `tls`: null where there is none to be had. All of it outlives the offer.
  TlsOffer(const rpc::Tls* tls, Metrics& metrics);

  const rpc::Tls* tls() const { return tls_; }
  // What became of a handshake.
  void count_established(bool with_certificate) { (with_certificate ? mutual_ : established_).add(); }
  void count_failed(rpc::Endpoint client, std::string_view why);

 private:
  const rpc::Tls* const tls_;
  Counter &established_, &mutual_, &failed_;
  LogLimiter log_{1};
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_FRONT_TLS_OFFER_H
