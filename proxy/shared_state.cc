#include "proxy/shared_state.h"

#include "routing/place.h"
#include "service/internal_call.h"
#include "wire/coordinator.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;

constexpr Duration kClockStep = 50ms;

}  // namespace

SharedState::SharedState(Loop& loop, rpc::Channel& channel, const routing::HandleCodec& handles,
                         Metrics& metrics, Tables tables)
    : loop_(loop),
      channel_(channel),
      tables_(tables),
      cache_(tables.attributes, tables.config, metrics,
             [this](const slice_eviction& changes) {
               loop_.post_from_any_thread([this, changes] { write_back_.add(changes); });
             }),
      maps_(
          [this](const routing::HandleBytes& handle, FileId file, std::uint64_t stripe) {
            loop_.post_from_any_thread(
                [this, handle, file, stripe] { spawn(fetch_piece(*this, handle, file, stripe)); });
          },
          metrics),
      write_back_(loop, channel, tables, cache_, handles, metrics) {}

// Milliseconds of the monotonic clock, so that a restart goes on where the last run was.
void SharedState::keep_clock() {
  auto now = std::chrono::duration_cast<std::chrono::milliseconds>(loop_.now().time_since_epoch()).count();
  slice_store_relaxed32(&tables_.config->now_ms, static_cast<std::uint32_t>(now));
  loop_.after(kClockStep, [this] { keep_clock(); });
}

void SharedState::remember_nothing(bool on) {
  slice_store_relaxed32(&tables_.config->attribute_life_ms, on ? 0 : kAttributeLifeMs);
}

Task<void> SharedState::fetch_piece(SharedState& self, routing::HandleBytes handle, FileId file,
                                    std::uint64_t stripe) {
  SiteId site = routing::coordinator_site(*self.tables_.config, file);
  auto coordinator = self.tables_.endpoint_of(SLICE_CLASS_COORDINATOR, site.value);
  Result<wire::MapResult> result = fail(Errc::kUnavailable, "no coordinator");
  if (coordinator) {
    result = co_await service::internal_call<wire::MapResult>(
        self.channel_, *coordinator, wire::kCoordinatorProgram, wire::CoordinatorProcedure::kMap,
        wire::MapArgs{handle, stripe});
  }
  if (result && result->status == nfs3::Status::kOk) {
    self.maps_.put(file, result->piece, self.loop_.now());
  } else {
    self.maps_.failed(file, wire::piece_of(stripe), self.loop_.now());
  }
}

}  // namespace slice::proxy
