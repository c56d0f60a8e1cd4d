#include "proxy/tables/server_latencies.h"

namespace slice::proxy {

void ServerLatencies::learn(const wire::Tables& tables) {
  std::lock_guard lock(mutex_);
  for (const wire::ServerEntry& server : tables.servers) {
    if (server.role != wire::Role::kRemoved) names_[server.endpoint] = server.name;
  }
}

Histogram& ServerLatencies::of(rpc::Endpoint server) {
  std::string name = "other";
  {
    std::lock_guard lock(mutex_);
    if (auto found = names_.find(server); found != names_.end()) name = found->second;
  }
  return metrics_.histogram(
      "proxy_server_latency_seconds",
      "time from when user space sent a request to a server to its whole reply, by server",
      {{"backend", name}});
}

}  // namespace slice::proxy
