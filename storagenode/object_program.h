// ObjectProgram: the object program (wire/object.h) over a node's store, for managers of the ensemble alone.
#ifndef SLICE_STORAGENODE_OBJECT_PROGRAM_H
#define SLICE_STORAGENODE_OBJECT_PROGRAM_H

#include "common/log.h"
#include "service/internal_program.h"
#include "service/site_moves.h"
#include "storagenode/node.h"
#include "wire/object.h"

namespace slice::storagenode {

class ObjectProgram : public service::InternalProgram {
 public:
  ObjectProgram(Node& node, const service::SiteMoves& moves);

 private:
  Task<rpc::Outcome> read(const wire::ObjectReadArgs& args, rpc::XdrWriter& results);
  Task<wire::ObjectWriteResult> write(const wire::ObjectWriteArgs& args);
  Task<wire::ObjectStatusResult> truncate(const wire::ObjectTruncateArgs& args);
  Task<wire::ObjectStatusResult> remove(const wire::ObjectRemoveArgs& args);
  Task<wire::ObjectStatResult> stat(const wire::ObjectStatArgs& args);
  Task<wire::ObjectListResult> list(const wire::ObjectListArgs& args);
  Task<wire::ObjectCommitResult> commit(const wire::ObjectCommitArgs& args);
  Task<wire::ObjectStatusResult> recall(const wire::RecallArgs& args);
  Task<wire::ObjectStatusResult> copy(const wire::CopyArgs& args);
  Task<wire::ObjectStatusResult> discard(const wire::DiscardArgs& args);
  Task<wire::ObjectStatusResult> leaving(const wire::LeavingArgs& args);
  nfs3::Status failed(const Error& error);

  Node& node_;
  const service::SiteMoves& moves_;
  Counter& failures_;
  LogLimiter failure_log_{5};
};

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_OBJECT_PROGRAM_H
