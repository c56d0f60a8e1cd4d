// BackingProgram: the backing program (wire/backing.h) over a node's backing sets.
#ifndef SLICE_STORAGENODE_BACKING_BACKING_PROGRAM_H
#define SLICE_STORAGENODE_BACKING_BACKING_PROGRAM_H

#include "service/internal_program.h"
#include "storagenode/backing/backing_files.h"

namespace slice::storagenode {

class BackingProgram : public service::InternalProgram {
 public:
  // Both outlive it.
  BackingProgram(BackingFiles& files, Metrics& metrics);

 private:
  Task<rpc::Outcome> read(const wire::BackingReadArgs& args, rpc::XdrWriter& results);

  BackingFiles& files_;
};

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_BACKING_BACKING_PROGRAM_H
