// Suspects: storage nodes that were silent when this one asked them for something. Nobody waits for one of
// them again until it has answered a probe, which goes to it in the background: else every write would wait
// for a node that is away, and that for as long as it takes to tell that from a busy link. One loop.
#ifndef SLICE_STORAGENODE_SUSPECTS_H
#define SLICE_STORAGENODE_SUSPECTS_H

#include <cstdint>
#include <memory>
#include <set>

#include "service/context.h"

namespace slice::storagenode {

class Suspects {
 public:
  static constexpr Duration kPause = std::chrono::milliseconds(500);  // between two probes
  static constexpr Duration kProbeTimeout = std::chrono::seconds(2);

  explicit Suspects(service::ServiceContext& context) : context_(context) {}
  ~Suspects() { *stopped_ = true; }
  Suspects(const Suspects&) = delete;
  Suspects& operator=(const Suspects&) = delete;

  bool has(std::uint32_t server) const { return servers_.contains(server); }
  // It has not answered in time.
  void silent(std::uint32_t server);
  // Probes nobody any more.
  void stop() { *stopped_ = true; }

 private:
  Task<void> probe(std::uint32_t server, std::shared_ptr<bool> stopped);

  service::ServiceContext& context_;
  std::set<std::uint32_t> servers_;
  std::shared_ptr<bool> stopped_ = std::make_shared<bool>(false);
};

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_SUSPECTS_H
