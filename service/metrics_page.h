// MetricsPage: a server's metrics over HTTP, for Prometheus: GET /metrics; and for who watches processes,
// /-/healthy (the process answers) and /-/ready (the server serves).
#ifndef SLICE_SERVICE_METRICS_PAGE_H
#define SLICE_SERVICE_METRICS_PAGE_H

#include <functional>
#include <memory>
#include <string>

#include "common/metrics.h"
#include "http/listener.h"

namespace slice::service {

class MetricsPage {
 public:
  struct Hooks {
    std::function<bool(IpAddress)> takes;  // addresses that may ask
    std::function<void()> refresh;         // before the metrics are read
    // What the server waits for before it serves; empty: it serves.
    std::function<std::string()> waits_for;
  };
  // Loop and metrics outlive it.
  MetricsPage(rpc::EpollLoop& loop, Metrics& metrics, Hooks hooks);

  // Serves from now on; where.
  Result<rpc::Endpoint> listen(rpc::Endpoint at) { return listener_.listen(at); }
  // One that serves, of a program whose operator has said where: everybody who reaches that may ask.
  // `waits_for`: as in Hooks. As of Listener::listen().
  static Result<std::unique_ptr<MetricsPage>> open(rpc::EpollLoop& loop, Metrics& metrics, rpc::Endpoint at,
                                                   std::function<std::string()> waits_for);

 private:
  http::Page page(std::string_view path);
  // However often it is asked for, the text is made ten times a second at most.
  std::shared_ptr<const std::string> text();

  rpc::EpollLoop& loop_;
  Metrics& metrics_;
  const Hooks hooks_;
  Histogram& time_;
  std::shared_ptr<const std::string> text_;
  MonoTime made_at_{};
  http::Listener listener_;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_METRICS_PAGE_H
