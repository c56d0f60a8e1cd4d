#include "storagenode/suspects.h"

#include "common/log.h"
#include "service/internal_call.h"
#include "wire/object.h"

namespace slice::storagenode {

void Suspects::silent(std::uint32_t server) {
  if (!servers_.insert(server).second) return;
  log_warning("server {} is silent: it is not asked until it answers again", server);
  spawn(probe(server, stopped_));
}

// One that the tables do not have any more is not asked by anybody else either.
Task<void> Suspects::probe(std::uint32_t server, std::shared_ptr<bool> stopped) {
  for (;;) {
    co_await context_.loop.sleep(kPause);
    if (*stopped) co_return;
    const wire::ServerEntry* entry = context_.tables.get()->server(server);
    if (entry == nullptr) break;
    auto answer = co_await service::internal_call<service::NoResults>(
        context_.channel, entry->endpoint, wire::kObjectProgram, wire::ObjectProcedure::kNull,
        service::NoArguments{}, kProbeTimeout);
    if (*stopped) co_return;
    if (answer) break;
  }
  servers_.erase(server);
  log_info("server {} is asked again", server);
}

}  // namespace slice::storagenode
