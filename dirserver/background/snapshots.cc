#include "dirserver/background/snapshots.h"

#include <utility>

#include "common/log.h"
#include "wire/moves.h"

namespace slice::dirserver {

using wire::SnapshotResult;
using wire::SnapshotStep;

namespace {

SnapshotResult not_now() {
  return {.status = nfs3::Status::kJukebox, .sites = {}};
}

}  // namespace

Snapshots::Snapshots(service::ServiceContext& context, CellStore& cells, service::SiteGate& gate)
    : context_(context),
      cells_(cells),
      gate_(gate),
      taken_(context.metrics.counter("snapshots_total", "moments of this server's cells kept for backups")),
      given_up_(context.metrics.counter("snapshots_given_up_total",
                                        "times that clients were held for a moment that was not kept: "
                                        "requests did not end, or who asked for "
                                        "it was gone")) {}

Snapshots::~Snapshots() {
  *alive_ = false;
}

Task<SnapshotResult> Snapshots::step(wire::SnapshotArgs args) {
  if (args.step == SnapshotStep::kHold) co_return co_await hold(args.number);
  if (args.step == SnapshotStep::kDrop) {
    kept_.erase(args.number);
    co_return SnapshotResult{};
  }
  if (!holds(args.number)) co_return not_now();
  if (args.step == SnapshotStep::kFreeze) co_return freeze();
  if (args.step == SnapshotStep::kTake) co_return take();
  release();
  co_return SnapshotResult{};
}

Task<SnapshotResult> Snapshots::hold(std::uint64_t number) {
  if (held_ || number == 0) co_return not_now();
  held_ = Held{.number = number, .sites = own_sites()};
  gate_.hold(held_->sites);
  context_.loop.after(wire::kMostHeld, [this, alive = alive_, number] {
    if (!*alive || !holds(number)) return;
    given_up_.add();
    log_warning("a snapshot was begun and not ended: clients are served again");
    release();
  });
  const bool drained = co_await gate_.drained(held_->sites, kPatience);
  if (!holds(number)) co_return not_now();
  if (!drained) {
    given_up_.add();
    release();
    co_return not_now();
  }
  held_->still = true;
  co_return SnapshotResult{};
}

SnapshotResult Snapshots::freeze() {
  if (!held_->still) return not_now();
  if (!std::exchange(held_->frozen, true)) {
    for (std::uint32_t site : held_->sites) cells_.stays().freeze(SiteId{site});
  }
  return {};
}

SnapshotResult Snapshots::take() {
  // A site that came meanwhile is not held.
  std::vector<std::uint32_t> sites = own_sites();
  if (!held_->frozen || sites != held_->sites) return not_now();
  if (kept_.size() == kMost) return not_now();
  kept_[held_->number] = {.cells = cells_.store().snapshot(), .sites = sites, .read = context_.loop.now()};
  drop_when_unread(held_->number, wire::kSnapshotKept);
  taken_.add();
  return {.sites = std::move(sites)};
}

void Snapshots::release() {
  const Held held = std::move(*held_);
  held_.reset();
  if (held.frozen) {
    for (std::uint32_t site : held.sites) cells_.stays().thaw(SiteId{site});
  }
  gate_.release(held.sites);
}

std::vector<std::uint32_t> Snapshots::own_sites() const {
  std::vector<std::uint32_t> sites;
  const std::uint32_t count = context_.config.site_counts[static_cast<std::size_t>(ServerRole::kDirectory)];
  for (std::uint32_t site = 0; site < count; ++site) {
    if (cells_.owns(SiteId{site})) sites.push_back(site);
  }
  return sites;
}

const storage::KvReader* Snapshots::find(std::uint64_t number, SiteId site) {
  auto found = kept_.find(number);
  if (found == kept_.end() || !wire::has_site(found->second.sites, site.value)) return nullptr;
  found->second.read = context_.loop.now();
  return found->second.cells.get();
}

void Snapshots::drop_when_unread(std::uint64_t number, Duration after) {
  context_.loop.after(after, [this, alive = alive_, number] {
    if (!*alive) return;
    auto found = kept_.find(number);
    if (found == kept_.end()) return;
    const Duration left = found->second.read + wire::kSnapshotKept - context_.loop.now();
    if (left > Duration::zero()) return drop_when_unread(number, left);
    log_info("a snapshot that nobody has read for a while is not kept any longer");
    kept_.erase(found);
  });
}

}  // namespace slice::dirserver
