// Truncations: a size-setting SETATTR in its two halves. First the cell gets the new size, the new epoch and
// the mark "truncating", in one batch with a record; then the bytes are cut by who holds them, for as long as
// that takes; then the mark and the record go. A restart goes on where it was. The caller holds the file's
// lock from begin() to the end. One loop.
#ifndef SLICE_DIRSERVER_BACKGROUND_TRUNCATIONS_H
#define SLICE_DIRSERVER_BACKGROUND_TRUNCATIONS_H

#include <vector>

#include "common/log.h"
#include "dirserver/across/lock_table.h"
#include "dirserver/background/data_servers.h"
#include "dirserver/store/cell_store.h"
#include "dirserver/store/duplicate_cache.h"
#include "service/file_locks.h"

namespace slice::dirserver {

class Truncations {
 public:
  Truncations(service::ServiceContext& context, CellStore& cells, service::FileLocks& locks, LockTable& held,
              DataServers& servers, DuplicateCache& duplicates);

  // The file's lock.
  Task<service::FileLocks::Held> lock(FileId file) { return locks_.lock(file); }
  // Whether other servers may hold bytes of the file, which are to be cut.
  bool bytes_elsewhere(const AttributeCell& cell) const { return servers_.involved(cell); }
  // The cell has its new size and epoch already; marks it and puts the record. `call`: the SETATTR that a
  // restart is to answer, with its pre-operation attributes.
  TruncationRecord begin(Transaction& transaction, AttributeCell& cell, const CallKey& call,
                         const nfs3::WccAttributes& before);
  // After the record is durable: has the bytes cut, trying again until it is done. False where the server
  // stops, or the file's site goes, before: then nothing may be answered. Ends early where the file was
  // removed meanwhile.
  Task<bool> carry_out(TruncationRecord record);
  // Takes mark and record away. The cell, for the reply; null where the file is gone.
  Result<AttributeCell*> end(Transaction& transaction, const TruncationRecord& record);

  // The site is here: starts again what was interrupted. kCorrupt. When the site goes they end by themselves.
  Status recover(SiteId site);
  void stop() { stopping_ = true; }

 private:
  Task<void> finish_recovered(TruncationRecord record, Stay stay);

  service::ServiceContext& context_;
  CellStore& cells_;
  service::FileLocks& locks_;
  LockTable& held_;
  DataServers& servers_;
  DuplicateCache& duplicates_;
  bool stopping_ = false;
  LogLimiter log_{2};
  Counter& begun_;
  Counter& retries_;
  Counter& under_way_;
};

// The results of a SETATTR whose truncation has ended: the pre-operation attributes are said only where
// nothing else changed the file meanwhile.
std::string truncated_reply(const TruncationRecord& record, const AttributeCell* cell, VolumeId volume);

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_BACKGROUND_TRUNCATIONS_H
