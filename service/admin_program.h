// AdminProgram: the admin program that every process serves: its metrics, for slicectl; reports of
// misdirected requests, for proxies. One loop.
#ifndef SLICE_SERVICE_ADMIN_PROGRAM_H
#define SLICE_SERVICE_ADMIN_PROGRAM_H

#include <functional>
#include <string>

#include "common/metrics.h"
#include "service/internal_program.h"
#include "wire/admin.h"

namespace slice::service {

class AdminProgram : public InternalProgram {
 public:
  using Misdirected = std::function<void(const wire::MisdirectedArgs&)>;
  // `refresh`, where given, runs before metrics are read: for gauges that nothing else keeps up to date.
  // `misdirected` is told of reports; none: there is no such procedure.
  AdminProgram(std::string process, Metrics& metrics, std::function<void()> refresh = nullptr,
               const Misdirected& misdirected = nullptr);

 private:
  wire::MetricsResult metrics();

  std::string process_;
  Metrics& metrics_;
  std::function<void()> refresh_;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_ADMIN_PROGRAM_H
