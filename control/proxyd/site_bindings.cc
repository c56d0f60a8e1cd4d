#include "control/proxyd/site_bindings.h"

#include <utility>

#include "proxy/tables/tables.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;

constexpr Duration kTablesStep = 100ms;
// How often, and how many times after the last find, entries are compared again once one was wrong.
constexpr Duration kWatchStep = 1s;
constexpr unsigned kWatches = 10;

}  // namespace

SiteBindings::SiteBindings(service::ServiceContext& context, ServerLatencies& latencies,
                           std::function<void()> changed)
    : context_(context),
      latencies_(latencies),
      changed_(std::move(changed)),
      reports_(context.metrics.counter("proxy_misdirected_reports_total",
                                       "reports of servers that a request came to which is another's")),
      mended_(context.metrics.counter(
          "proxy_entries_mended_total",
          "entries of sites and servers that were put right for reports of servers")) {}

void SiteBindings::keep(Tables tables) {
  tables_ = tables;
  follow_and_wait();
}

void SiteBindings::follow_and_wait() {
  follow();
  context_.loop.after(kTablesStep, [this] { follow_and_wait(); });
}

void SiteBindings::follow() {
  const auto& current = context_.tables.get();
  if (current == bound_) return;
  bool changed = bound_ == nullptr || current->generation() != bound_->generation();
  bound_ = current;
  latencies_.learn(current->wire());
  bind_sites(current->wire(), tables_);
  note_maps(*current, *tables_.config);
  if (changed) changed_();
}

std::size_t SiteBindings::mend() {
  std::size_t mended = bind_sites(context_.tables.get()->wire(), tables_);
  if (mended == 0) return 0;
  mended_.add(mended);
  changed_();
  if (std::exchange(watches_left_, kWatches) == 0) context_.loop.after(kWatchStep, [this] { watch(); });
  return mended;
}

// Who changes entries one after another may be in the midst of it when the first report comes; a site whose
// entry is changed after that may have no request, and so no report, for long.
void SiteBindings::watch() {
  std::size_t mended = mend();
  if (mended == 0) {
    --watches_left_;
  } else if (log_limit_.allow()) {
    log_warning("entries were changed again after a report: entries_put_right={}", mended);
  }
  if (watches_left_ > 0) context_.loop.after(kWatchStep, [this] { watch(); });
}

// Either an entry is not what the tables say (then it is put right at once), or the tables are old, the
// reporter's or these: the manager knows. What the reporter has is its own to bring up to date.
void SiteBindings::misdirected(const wire::MisdirectedArgs& report) {
  reports_.add();
  std::size_t mended = mend();
  if (log_limit_.allow()) {
    log_warning(
        "a request for {} site {} came to a server that does not own it: entries_put_right={} generation={} "
        "reporters_generation={}",
        wire::role_name(report.site_class), report.site.value, mended,
        context_.tables.get()->generation().value, report.generation.value);
  }
  spawn(refresh(*this));
}

Task<void> SiteBindings::refresh(SiteBindings& self) {
  co_await self.context_.refresh_tables();
  self.follow();
}

}  // namespace slice::proxy
