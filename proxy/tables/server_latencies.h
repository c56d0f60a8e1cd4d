// ServerLatencies: how long each server takes to answer, as the workers of a proxy see it.
#ifndef SLICE_PROXY_TABLES_SERVER_LATENCIES_H
#define SLICE_PROXY_TABLES_SERVER_LATENCIES_H

#include <mutex>
#include <string>
#include <unordered_map>

#include "common/metrics.h"
#include "rpc/endpoint.h"
#include "wire/manager.h"

namespace slice::proxy {

// On any thread.
class ServerLatencies {
 public:
  // `metrics` outlives it.
  explicit ServerLatencies(Metrics& metrics) : metrics_(metrics) {}
  ServerLatencies(const ServerLatencies&) = delete;
  ServerLatencies& operator=(const ServerLatencies&) = delete;

  // Whose endpoints are whose: before of() is asked for servers of these tables.
  void learn(const wire::Tables& tables);
  // That of the server there; of one that no tables had it is "other"'s. Valid as long as the metrics.
  Histogram& of(rpc::Endpoint server);

 private:
  Metrics& metrics_;
  std::mutex mutex_;  // guards names_
  std::unordered_map<rpc::Endpoint, std::string> names_;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_TABLES_SERVER_LATENCIES_H
