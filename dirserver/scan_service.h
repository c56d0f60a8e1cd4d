// ScanService: the scan program (wire/scan.h): the stored cells of this server's sites, for the checker of
// the name space and for backups. One loop.
#ifndef SLICE_DIRSERVER_SCAN_SERVICE_H
#define SLICE_DIRSERVER_SCAN_SERVICE_H

#include "dirserver/background/snapshots.h"
#include "service/context.h"
#include "service/internal_program.h"
#include "storage/kv_store.h"
#include "wire/scan.h"

namespace slice::dirserver {

class ScanService : public service::InternalProgram {
 public:
  // All must outlive this.
  ScanService(service::ServiceContext& context, const storage::KvStore& store, Snapshots& snapshots);

 private:
  wire::ScanResult scan(const wire::ScanArgs& args);

  service::ServiceContext& context_;
  const storage::KvStore& store_;
  Snapshots& snapshots_;
  Counter& pages_;
  Counter& cells_;
  Counter& gaps_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_SCAN_SERVICE_H
