// RoutesProgram: ROUTES (wire/routes.h) on the virtual address, beside MOUNT: tells a client's own proxy, for
// clients that an export names, what the tables say.
#ifndef SLICE_PROXY_PROGRAMS_ROUTES_PROGRAM_H
#define SLICE_PROXY_PROGRAMS_ROUTES_PROGRAM_H

#include "common/settings.h"
#include "proxy/tables/tables.h"
#include "rpc/dispatcher.h"
#include "rpc/refusals.h"
#include "wire/routes.h"

namespace slice::proxy {

class RoutesProgram : public rpc::Program {
 public:
  // All of it outlives the program.
  RoutesProgram(const LiveSettings& settings, Tables tables, Metrics& metrics)
      : settings_(settings),
        tables_(tables),
        told_(metrics.counter("proxy_routes_told_total",
                              "times that a proxy on a client's own host was told where sites are")),
        refusals_(metrics) {}
  std::uint32_t number() const override { return wire::kRoutesProgram; }
  std::uint32_t version() const override { return wire::kInternalVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override;

 private:
  const SettingsReader settings_;
  const Tables tables_;
  Counter& told_;
  rpc::Refusals refusals_;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_PROGRAMS_ROUTES_PROGRAM_H
