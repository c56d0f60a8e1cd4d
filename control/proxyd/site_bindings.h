// SiteBindings: keeps the sites table of a proxy in step with the manager's tables. Binds sites when the
// manager has published another generation, and only then: what an operator re-binds by hand stays until
// then, or until a server reports that it is wrong (docs/proxy.md).
#ifndef SLICE_CONTROL_PROXYD_SITE_BINDINGS_H
#define SLICE_CONTROL_PROXYD_SITE_BINDINGS_H

#include <functional>
#include <memory>

#include "common/log.h"
#include "proxy/tables/server_latencies.h"
#include "proxy/tables/tables.h"
#include "service/process.h"

namespace slice::proxy {

class SiteBindings {
 public:
  // `context` outlives it. `changed` is called whenever entries became others.
  // `latencies` learns of servers before sites are bound to them.
  SiteBindings(service::ServiceContext& context, ServerLatencies& latencies, std::function<void()> changed);

  // Binds all sites of `tables`, and follows the manager from now on.
  void keep(Tables tables);
  const routing::RoutingTables& bound() const { return *bound_; }
  // A server got a request that it does not own: puts wrong entries right, and asks the manager for newer
  // tables.
  void misdirected(const wire::MisdirectedArgs& report);

 private:
  void follow_and_wait();
  void follow();
  // Binds all of them again, whatever the entries say; where any was wrong they are watched from then on.
  std::size_t mend();
  void watch();
  static Task<void> refresh(SiteBindings& self);

  service::ServiceContext& context_;
  ServerLatencies& latencies_;
  std::function<void()> changed_;
  Tables tables_;
  std::shared_ptr<const routing::RoutingTables> bound_;  // what the table says
  unsigned watches_left_ = 0;                            // a look is due in a while where there are any
  LogLimiter log_limit_{1};
  Counter& reports_;
  Counter& mended_;
};

}  // namespace slice::proxy

#endif  // SLICE_CONTROL_PROXYD_SITE_BINDINGS_H
