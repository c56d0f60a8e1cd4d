#include "dirserver/scan_service.h"

#include "common/log.h"
#include "dirserver/cells/scan_page.h"

namespace slice::dirserver {

ScanService::ScanService(service::ServiceContext& context, const storage::KvStore& store)
    : InternalProgram(wire::kScanProgram),
      context_(context),
      store_(store),
      pages_(context.metrics.counter("scan_pages_total", "pages of cells read by slicectl fsck")),
      cells_(context.metrics.counter("scan_cells_total", "cells in the pages that slicectl fsck read")),
      gaps_(context.metrics.counter("scan_unreadable_total",
                                    "ranges of cells that the store could not read for slicectl fsck")) {
  on<wire::ScanArgs>(wire::ScanProcedure::kScan, [this](const auto& args) { return scan(args); });
}

wire::ScanResult ScanService::scan(const wire::ScanArgs& args) {
  if (args.site.value >= context_.config.site_counts[static_cast<std::size_t>(ServerRole::kDirectory)]) {
    return {.status = nfs3::Status::kInval};
  }
  if (!context_.tables.get()->owns(context_.self.index, wire::Role::kDirectory, args.site)) {
    return {.status = nfs3::Status::kJukebox};
  }
  wire::ScanResult result = scan_page(store_, args);
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
