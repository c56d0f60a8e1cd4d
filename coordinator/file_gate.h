// FileGate: of which files this process is the coordinator, and whether whoever works for one is to leave
// off, since its site is about to go to another server (docs/moves.md). Every request of a file and all that
// is done for it in the background is known here while it goes on. One loop.
#ifndef SLICE_COORDINATOR_FILE_GATE_H
#define SLICE_COORDINATOR_FILE_GATE_H

#include <optional>
#include <utility>

#include "service/context.h"
#include "service/site_gate.h"

namespace slice::coordinator {

class FileGate {
 public:
  using Pass = service::SiteGate::Pass;

  explicit FileGate(service::ServiceContext& context) : context_(context), sites_(context.loop) {}

  service::SiteGate& sites() { return sites_; }
  std::uint32_t site_of(FileId file) const { return context_.tables.get()->coordinator_site(file).value; }
  bool owns(FileId file) const {
    const routing::RoutingTables& tables = *context_.tables.get();
    return tables.owns(context_.self.index, wire::Role::kCoordinator, tables.coordinator_site(file));
  }
  // Whoever works for the file leaves off as soon as it can without harm.
  bool held(FileId file) const { return sites_.holds(site_of(file)); }
  // Work for the file may begin.
  bool open(FileId file) const { return owns(file) && !held(file); }
  Pass enter(FileId file) { return {sites_, site_of(file)}; }

  // As in SiteGate.
  template <class T>
  Task<std::optional<T>> unless_held(FileId file, Task<T> task) {
    return sites_.unless_held(site_of(file), std::move(task));
  }
  Task<bool> pause(FileId file, Duration duration) { return sites_.pause(site_of(file), duration); }

 private:
  service::ServiceContext& context_;
  service::SiteGate sites_;
};

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_FILE_GATE_H
