// EtcdRegistry: the registry in etcd, through its JSON gateway. A request goes to the member that answered
// last, and where that does not answer within kTimeout to the next, once to each. One loop.
#ifndef SLICE_CONTROL_MANAGER_ETCD_REGISTRY_H
#define SLICE_CONTROL_MANAGER_ETCD_REGISTRY_H

#include <memory>
#include <string>
#include <vector>

#include "common/config.h"
#include "common/metrics.h"
#include "control/manager/registry.h"

namespace slice::manager {

class EtcdRegistry : public Registry {
 public:
  static constexpr Duration kTimeout = std::chrono::milliseconds(500);  // of one request to one member
  static constexpr Duration kProbe = std::chrono::seconds(2);           // between looks at all members

  struct Credentials {
    std::string user, password;  // no user: etcd asks for none
  };
  // Both outlive it.
  EtcdRegistry(Loop& loop, Metrics& metrics, const ManagersConfig& config, Credentials credentials);
  // No request may be under way.
  ~EtcdRegistry() override;

  Task<Result<Lease>> grant(Duration time) override;
  Task<Status> keep(std::uint64_t lease) override;
  Task<Status> revoke(std::uint64_t lease) override;
  Task<Result<LeaderEntry>> leader() override;
  Task<Result<LeaderEntry>> stand(std::string holder, std::uint64_t lease) override;
  Task<Result<Stored>> read(std::string name) override;
  Task<Result<WriteResult>> write(std::string name, ByteView contents, Revision revision,
                                  Revision leader) override;
  std::vector<wire::StorePlace> places() const override;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // shared with the looks at members
};

// Of a file with one line, USER:PASSWORD, that only its owner has any right to. kInvalid. Blocks.
Result<EtcdRegistry::Credentials> read_credentials(const std::string& path);

}  // namespace slice::manager

#endif  // SLICE_CONTROL_MANAGER_ETCD_REGISTRY_H
