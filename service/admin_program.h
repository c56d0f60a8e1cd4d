// AdminProgram: the admin program that every process serves: its metrics, for slicectl; reports of
// misdirected requests, for proxies. One loop.
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
  using Misdirected = std::function<void(const wire::MisdirectedArgs&)>;
  // `refresh`, where given, runs before metrics are read: for gauges that nothing else keeps up to date.
  // `misdirected` is told of reports; none: there is no such procedure.
  AdminProgram(std::string process, Metrics& metrics, std::function<void()> refresh = nullptr,
               Misdirected misdirected = nullptr)
      : process_(std::move(process)),
        metrics_(metrics),
        refresh_(std::move(refresh)),
        misdirected_(std::move(misdirected)) {}

  std::uint32_t number() const override { return wire::kAdminProgram; }
  std::uint32_t version() const override { return wire::kInternalVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override;

 private:
  rpc::Outcome metrics(const rpc::Call& call, rpc::XdrWriter& results);
  rpc::Outcome misdirected(const rpc::Call& call);

  std::string process_;
  Metrics& metrics_;
  std::function<void()> refresh_;
  Misdirected misdirected_;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_ADMIN_PROGRAM_H
