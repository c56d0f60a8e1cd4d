// SharedStore: the state of an ensemble of several managers, in a Registry. One of them leads, by a lease
// that it keeps; it stops by itself, by its own clock, before the lease could be over, and changes nothing
// that a later leader could have changed, since each write compares. One loop.
//
// A write whose answer does not come is made again until it is known what became of it: the comparison lets
// only one of the same take place.
#ifndef SLICE_CONTROL_MANAGER_SHARED_STORE_H
#define SLICE_CONTROL_MANAGER_SHARED_STORE_H

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/log.h"
#include "common/metrics.h"
#include "control/manager/registry.h"
#include "control/manager/state_store.h"
#include "service/log_backoff.h"

namespace slice::manager {

class SharedStore : public StateStore {
 public:
  static constexpr Duration kLook = std::chrono::milliseconds(250);  // who does not lead, for who does
  static constexpr Duration kAgain = std::chrono::milliseconds(50);  // a write without an answer

  struct Seams {
    Loop& loop;
    Metrics& metrics;
    std::string self;  // the manager's name
    Duration lease;
    std::function<std::uint64_t()> random;
  };
  SharedStore(Seams seams, std::unique_ptr<Registry> registry);
  // The registry's calls under way go on without it.
  ~SharedStore() override;

  Task<Result<Buffer>> read(std::string name) override;
  Task<Status> replace(std::string name, Buffer contents) override;
  void stand(Hooks hooks) override;
  bool leads() const override;
  Task<void> resign(Duration pause) override;
  std::string leader() const override;
  std::vector<wire::StorePlace> places() const override;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // shared with what is under way
};

}  // namespace slice::manager

#endif  // SLICE_CONTROL_MANAGER_SHARED_STORE_H
