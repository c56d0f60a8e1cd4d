// TRUNCATE: cuts every part of a file to a new size, under a new truncation epoch. Driven by the file's
// directory server, which holds the file's lock meanwhile and asks again after a crash of either side.
#ifndef SLICE_COORDINATOR_OPS_TRUNCATE_H
#define SLICE_COORDINATOR_OPS_TRUNCATE_H

#include <map>
#include <utility>
#include <vector>

#include "coordinator/intentions.h"
#include "coordinator/participants.h"
#include "service/authority_client.h"
#include "service/file_locks.h"

namespace slice::coordinator {

class TruncateOperation {
 public:
  TruncateOperation(service::ServiceContext& context, FileGate& gate, Intentions& intentions,
                    Participants& participants, service::FileLocks& locks,
                    service::AuthorityClient& authority);

  // kOk when every participant has done it. kJukebox: the file's site is held, and it is owed there where
  // that is then. The same asked again meanwhile (file and epoch) waits for the first.
  Task<nfs3::Status> run(routing::FileHandle handle, std::uint64_t size, Epoch epoch);
  // Fulfils an intention that a crash, or another coordinator, has left.
  Task<void> resume(storage::LogSequence sequence, const Intention& intention);

 private:
  using Key = std::pair<FileId, Epoch>;
  Task<nfs3::Status> begin_and_cut(routing::FileHandle handle, std::uint64_t size, Epoch epoch);
  // False: not all have done it, since the file's site is held.
  Task<bool> cut_everywhere(routing::FileHandle handle, std::uint64_t size, Epoch epoch);
  void finish(Key key, nfs3::Status status);

  service::ServiceContext& context_;
  FileGate& gate_;
  Intentions& intentions_;
  Participants& participants_;
  service::FileLocks& locks_;  // a truncation, or a copy that is emptied and joins: one at a time
  service::AuthorityClient& authority_;
  std::map<Key, std::vector<OneShot<nfs3::Status>>> running_;
  Counter& done_;
};

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_OPS_TRUNCATE_H
