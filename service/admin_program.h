// AdminProgram: the admin program that every process serves: its metrics, for slicectl; reports of
// misdirected requests, for proxies; that there are new tables, or settings, and which settings it goes by;
// RELOAD, for the manager; ABOUT, TRACE and TOP, for slicectl. One loop.
#ifndef SLICE_SERVICE_ADMIN_PROGRAM_H
#define SLICE_SERVICE_ADMIN_PROGRAM_H

#include <functional>
#include <string>

#include "common/metrics.h"
#include "service/internal_program.h"
#include "wire/about.h"
#include "wire/settings.h"
#include "wire/trace.h"

namespace slice::service {

class AdminProgram : public InternalProgram {
 public:
  // Each may be none.
  struct Hooks {
    std::function<void()> refresh;  // before metrics are read: for gauges that nothing else keeps up to date
    // None: there is no such procedure.
    std::function<void(const wire::MisdirectedArgs&)> misdirected;
    std::function<Task<void>(Generation)> new_tables;  // ends when they are in use, or cannot be had
    // That the process goes by; the two are there together.
    std::function<Settings()> settings;
    std::function<Task<void>(SettingsGeneration)> new_settings;  // ends as new_tables
    std::function<Task<wire::ReloadResult>()> reload;
    std::function<wire::AboutResult()> about;
    // What operations are doing; the two are there together.
    std::function<wire::TraceResult(const wire::TraceArgs&)> trace;
    std::function<wire::TopResult(const wire::TopArgs&)> top;
  };
  AdminProgram(std::string process, Metrics& metrics, Hooks hooks);

 private:
  wire::MetricsResult metrics();
  Task<NoResults> take_tables(wire::NewTablesArgs args);
  Task<wire::SettingsNotice> take_settings(wire::SettingsNotice notice);

  std::string process_;
  Metrics& metrics_;
  const Hooks hooks_;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_ADMIN_PROGRAM_H
