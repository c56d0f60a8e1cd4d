#include "dirserver/scan_service.h"

#include "common/log.h"
#include "dirserver/cells/scan_page.h"

namespace slice::dirserver {

ScanService::ScanService(service::ServiceContext& context, const storage::KvStore& store,
                         Snapshots& snapshots)
    : InternalProgram(wire::kScanProgram),
      context_(context),
      store_(store),
      snapshots_(snapshots),
      pages_(context.metrics.counter("scan_pages_total",
                                     "pages of cells read by slicectl fsck and slicectl backup")),
      cells_(context.metrics.counter("scan_cells_total", "cells in those pages")),
      gaps_(context.metrics.counter("scan_unreadable_total",
                                    "ranges of cells that the store could not read for them")) {
  on<wire::ScanArgs>(wire::ScanProcedure::kScan, [this](const auto& args) { return scan(args); });
  on<wire::SnapshotArgs>(wire::ScanProcedure::kSnapshot,
                         [this](const auto& args) { return snapshots_.step(args); });
}

wire::ScanResult ScanService::scan(const wire::ScanArgs& args) {
  if (args.site.value >= context_.config.site_counts[static_cast<std::size_t>(ServerRole::kDirectory)]) {
    return {.status = nfs3::Status::kInval};
  }
  const storage::KvReader* cells = &store_;
  if (args.snapshot != 0) {
    cells = snapshots_.find(args.snapshot, args.site);
    if (cells == nullptr) return {.status = nfs3::Status::kNoEnt};
  } else if (!context_.tables.get()->owns(context_.self.index, wire::Role::kDirectory, args.site)) {
    return {.status = nfs3::Status::kJukebox};
  }
  wire::ScanResult result = scan_page(*cells, args);
  pages_.add();
  cells_.add(result.cells.size());
  for (const wire::ScanGap& gap : result.gaps) {
    gaps_.add();
    log_error("site {}: cells between {} and {} cannot be read: {}", args.site.value,
              to_hex(as_bytes(gap.begin)), to_hex(as_bytes(gap.end)), gap.reason);
  }
  return result;
}

}  // namespace slice::dirserver
