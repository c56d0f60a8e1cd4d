// AdminProgram: the admin program that every process serves: its metrics, for slicectl. One loop.
#ifndef SLICE_SERVICE_ADMIN_PROGRAM_H
#define SLICE_SERVICE_ADMIN_PROGRAM_H

#include <functional>
#include <string>
#include <utility>

#include "common/metrics.h"
#include "rpc/dispatcher.h"
#include "wire/admin.h"

namespace slice::service {

class AdminProgram : public rpc::Program {
 public:
  // `refresh`, where given, runs before metrics are read: for gauges that nothing else keeps up to date.
  AdminProgram(std::string process, Metrics& metrics, std::function<void()> refresh = nullptr)
      : process_(std::move(process)), metrics_(metrics), refresh_(std::move(refresh)) {}

  std::uint32_t number() const override { return wire::kAdminProgram; }
  std::uint32_t version() const override { return wire::kInternalVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override;

 private:
  std::string process_;
  Metrics& metrics_;
  std::function<void()> refresh_;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_ADMIN_PROGRAM_H
