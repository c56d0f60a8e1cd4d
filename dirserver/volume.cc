#include "dirserver/volume.h"

#include <cstdlib>

#include "common/log.h"

namespace slice::dirserver {
Volume::Volume(service::ServiceContext& service_context, storage::KvStore& store,
               DuplicateCache::Options duplicate_options)
    : context(service_context),
      stays(context.loop),
      peers(context, stays),
      cells(
          store, context.metrics, context.self.cache_bytes / 2,
          [this](SiteId site) { return peers.owns(site); }, stays),
      placement(context.config, context.tables),
      locks(context.loop),
      held(context.loop),
      grants(context, cells),
      duplicates(context.loop, context.metrics, duplicate_options),
      members(context),
      space(context, members),
      new_directories(context, members),
      quotas(context, cells),
      servers(context),
      truncations(context, cells, locks, held, servers, duplicates),
      cuts(context, cells, held, peers, duplicates),
      reclaimer(context, cells, locks, servers, placement.sites()),
      parts(context, cells, held, peers),
      intentions(context, cells, peers),
      participant({context, cells, held, peers, parts, placement, reclaimer, [this] { return space.low(); }}),
      names(context, cells, placement, held, peers, parts),
      changes({context, names, peers, parts, intentions, duplicates, space, new_directories, quotas,
               reclaimer}) {}

Task<Status> Volume::start() {
  auto stored = cells.store().get(format_key());
  if (!stored) co_return fail(stored.error(), "the store's format");
  std::string expected = format_text(context.config.volume, placement.sites());
  if (!*stored) {
    SLICE_CO_RETURN_IF_ERROR(co_await create(expected));
  } else if (**stored != expected) {
    co_return fail(Errc::kInvalid, "the store was made for \"{}\", the configuration says \"{}\"", **stored,
                   expected);
  }
  const std::vector<SiteId> ours = owned();
  for (SiteId site : ours) stays.begin(site);
  SLICE_CO_RETURN_IF_ERROR(duplicates.load(cells, ours));
  // Locks of what was promised first: nothing may run in between.
  for (SiteId site : ours) SLICE_CO_RETURN_IF_ERROR(participant.recover(site));
  for (SiteId site : ours) SLICE_CO_RETURN_IF_ERROR(recover(site));
  cells.object_count().begin(cells.store(), ours, context.loop);
  quotas.settings_changed(ours);
  context.tables.watch([this](const auto&) { follow_tables(); });
  co_return Status{};
}

// What a site needs beside its promises and its duplicate calls.
Status Volume::recover(SiteId site) {
  SLICE_RETURN_IF_ERROR(cuts.recover(site));
  SLICE_RETURN_IF_ERROR(intentions.recover(site));
  SLICE_RETURN_IF_ERROR(parts.recover(site));
  SLICE_RETURN_IF_ERROR(truncations.recover(site));
  SLICE_RETURN_IF_ERROR(grants.recover(site));
  reclaimer.recover();
  return {};
}

std::vector<SiteId> Volume::owned() const {
  std::vector<SiteId> ours;
  for (SiteId site{0}; site.value < placement.sites(); ++site.value) {
    if (peers.owns(site)) ours.push_back(site);
  }
  return ours;
}

std::vector<SiteId> Volume::sites() const {
  std::vector<SiteId> here;
  for (SiteId site{0}; site.value < placement.sites(); ++site.value) {
    if (stays.here(site)) here.push_back(site);
  }
  return here;
}

void Volume::follow_tables() {
  for (SiteId site{0}; site.value < placement.sites(); ++site.value) {
    const bool ours = peers.owns(site);
    if (ours == stays.here(site)) continue;
    if (!ours) {
      release(site);
    } else if (Status here = adopt(site); !here) {
      // It was looked at before it was taken: the next start says the same, and does not serve.
      log_error("site {} came here and cannot be served: {}", site.value, here.error().message);
      std::abort();
    }
  }
}

Status Volume::adopt(SiteId site) {
  stays.begin(site);
  SLICE_RETURN_IF_ERROR(duplicates.load(cells, {site}));
  SLICE_RETURN_IF_ERROR(participant.recover(site));
  cells.object_count().came(cells.store(), site, context.loop);
  cells.usage().came(cells.store(), site, context.loop);
  return recover(site);
}

void Volume::release(SiteId site) {
  stays.end(site);
  participant.release(site);
  intentions.release(site);
  parts.release(site);
  reclaimer.release(site);
  duplicates.release(site);
  cells.locks().release(site);
  cells.object_count().went(cells.store(), site, context.loop);
  cells.usage().went(site);
}

// The store's format and, with the root's site, the root directory.
Task<Status> Volume::create(std::string format) {
  Transaction transaction(cells);
  transaction.put(format_key(), std::move(format));
  if (peers.owns(kRootSite)) {
    const VolumeConfig& config = context.config.volume;
    AttributeCell root;
    root.self = target_of(routing::root_handle(config));
    root.mode = config.root_mode;
    root.uid = config.root_uid;
    root.gid = config.root_gid;
    root.nlink = 2;
    root.atime = root.mtime = root.ctime = names.now();
    root.parent = root.self.cell;
    transaction.create(std::move(root));
  }
  auto position = transaction.commit();
  if (!position) co_return fail(position.error(), "making the store");
  co_return co_await cells.durable(*position);
}

void Volume::stop() {
  context.tables.watch(nullptr);
  quotas.stop();
  participant.stop();
  intentions.stop();
  parts.stop();
  truncations.stop();
  cuts.stop();
  grants.stop();
  reclaimer.stop();
}

}  // namespace slice::dirserver
