// scan_page: one page of a site's cells out of a store, past blocks that cannot be read.
#ifndef SLICE_DIRSERVER_CELLS_SCAN_PAGE_H
#define SLICE_DIRSERVER_CELLS_SCAN_PAGE_H

#include "storage/kv_store.h"
#include "wire/scan.h"

namespace slice::dirserver {

// What SCAN answers (wire/scan.h). kInval where a key is not of the site or too long. Synchronous: everything
// in the result is of one moment.
wire::ScanResult scan_page(const storage::KvReader& store, const wire::ScanArgs& args);

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_CELLS_SCAN_PAGE_H
