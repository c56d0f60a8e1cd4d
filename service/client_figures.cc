#include "service/client_figures.h"

#include "rpc/endpoint.h"

namespace slice::service {

ClientFigures::ClientFigures(Metrics& metrics, std::size_t most) : metrics_(metrics), most_(most) {
  if (most_ > 0) others_ = make("other");
}

ClientFigures::Figures ClientFigures::make(std::string_view client) {
  return {&metrics_.counter("nfs_client_calls_total", "NFS calls of clients that an export names, by client",
                            {{"client", client}}),
          &metrics_.counter("nfs_client_received_bytes_total",
                            "bytes of the arguments of clients' NFS calls, by client", {{"client", client}}),
          &metrics_.counter("nfs_client_sent_bytes_total",
                            "bytes of the results of clients' NFS calls, by client", {{"client", client}})};
}

void ClientFigures::add(IpAddress address, std::size_t received, std::size_t sent) {
  auto found = by_address_.find(address);
  if (found == by_address_.end() && by_address_.size() < most_)
    found = by_address_.emplace(address, make(address_text(address))).first;
  const Figures& figures = found == by_address_.end() ? others_ : found->second;
  figures.calls->add();
  figures.received->add(received);
  figures.sent->add(sent);
}

}  // namespace slice::service
