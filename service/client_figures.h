// ClientFigures: what each client asks of a server, where the configuration wants that ([metrics] clients).
// The first so many addresses have figures of their own, for as long as the server runs; all others share
// those of "other".
#ifndef SLICE_SERVICE_CLIENT_FIGURES_H
#define SLICE_SERVICE_CLIENT_FIGURES_H

#include <cstdint>
#include <unordered_map>

#include "common/ip_address.h"
#include "common/metrics.h"

namespace slice::service {

// One thread.
class ClientFigures {
 public:
  // `most`: clients with figures of their own; 0: nothing is counted. `metrics` outlives it.
  ClientFigures(Metrics& metrics, std::size_t most);

  // A call of a client that an export names: bytes of its arguments, and of its results. Allocates at an
  // address's first call alone.
  void count(IpAddress address, std::size_t received, std::size_t sent) {
    if (most_ > 0) add(address, received, sent);
  }

 private:
  struct Figures {
    Counter* calls = nullptr;
    Counter* received = nullptr;
    Counter* sent = nullptr;
  };
  Figures make(std::string_view client);
  void add(IpAddress address, std::size_t received, std::size_t sent);

  Metrics& metrics_;
  const std::size_t most_;
  std::unordered_map<IpAddress, Figures> by_address_;
  Figures others_;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_CLIENT_FIGURES_H
