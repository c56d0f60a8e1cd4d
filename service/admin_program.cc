#include "service/admin_program.h"

#include <utility>

namespace slice::service {

AdminProgram::AdminProgram(std::string process, Metrics& metrics, Hooks hooks)
    : InternalProgram(wire::kAdminProgram),
      process_(std::move(process)),
      metrics_(metrics),
      hooks_(std::move(hooks)) {
  on<NoArguments>(wire::AdminProcedure::kMetrics, [this](const auto&) { return this->metrics(); });
  if (hooks_.misdirected) {
    on<wire::MisdirectedArgs>(wire::AdminProcedure::kMisdirected,
                              [this](const wire::MisdirectedArgs& report) {
                                hooks_.misdirected(report);
                                return NoResults{};
                              });
  }
  if (hooks_.new_tables) {
    on<wire::NewTablesArgs>(wire::AdminProcedure::kNewTables,
                            [this](const wire::NewTablesArgs& args) { return take_tables(args); });
  }
  if (hooks_.settings) {
    on<wire::SettingsNotice>(wire::AdminProcedure::kNewSettings,
                             [this](const wire::SettingsNotice& notice) { return take_settings(notice); });
    on<NoArguments>(wire::AdminProcedure::kGetSettings,
                    [this](const auto&) { return wire::SettingsResult{hooks_.settings()}; });
  }
  if (hooks_.about) {
    on<NoArguments>(wire::AdminProcedure::kAbout, [this](const auto&) { return hooks_.about(); });
  }
  if (hooks_.reload) {
    on<NoArguments>(wire::AdminProcedure::kReload, [this](const auto&) { return hooks_.reload(); });
  }
  if (hooks_.trace) {
    on<wire::TraceArgs>(wire::AdminProcedure::kTrace,
                        [this](const wire::TraceArgs& args) { return hooks_.trace(args); });
    on<wire::TopArgs>(wire::AdminProcedure::kTop,
                      [this](const wire::TopArgs& args) { return hooks_.top(args); });
  }
}

Task<NoResults> AdminProgram::take_tables(wire::NewTablesArgs args) {
  co_await hooks_.new_tables(args.generation);
  co_return NoResults{};
}

Task<wire::SettingsNotice> AdminProgram::take_settings(wire::SettingsNotice notice) {
  co_await hooks_.new_settings(notice.generation);
  co_return wire::SettingsNotice{hooks_.settings().generation};
}

wire::MetricsResult AdminProgram::metrics() {
  if (hooks_.refresh) hooks_.refresh();
  return {.process = process_, .text = metrics_.text()};
}

}  // namespace slice::service
