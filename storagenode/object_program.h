// ObjectProgram: the object program (wire/object.h) over a node's store, for managers of the ensemble alone.
#ifndef SLICE_STORAGENODE_OBJECT_PROGRAM_H
#define SLICE_STORAGENODE_OBJECT_PROGRAM_H

#include "common/log.h"
#include "rpc/dispatcher.h"
#include "storagenode/node.h"
#include "wire/object.h"

namespace slice::storagenode {

class ObjectProgram : public rpc::Program {
 public:
  explicit ObjectProgram(Node& node);
  std::uint32_t number() const override { return wire::kObjectProgram; }
  std::uint32_t version() const override { return wire::kInternalVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override;

 private:
  Task<void> run(wire::ObjectReadArgs args, rpc::XdrWriter& results);
  Task<void> run(wire::ObjectWriteArgs args, rpc::XdrWriter& results);
  Task<void> run(wire::ObjectTruncateArgs args, rpc::XdrWriter& results);
  Task<void> run(wire::ObjectRemoveArgs args, rpc::XdrWriter& results);
  Task<void> run(wire::ObjectStatArgs args, rpc::XdrWriter& results);
  Task<void> run(wire::ObjectListArgs args, rpc::XdrWriter& results);
  Task<void> run(wire::ObjectCommitArgs args, rpc::XdrWriter& results);
  Task<void> run(wire::RecallArgs args, rpc::XdrWriter& results);
  Task<void> run(wire::ForwardArgs args, rpc::XdrWriter& results);
  Task<void> run(wire::CopyArgs args, rpc::XdrWriter& results);
  Task<void> run(wire::DiscardArgs args, rpc::XdrWriter& results);
  template <class Args>
  Task<rpc::Outcome> decode_and_run(const rpc::Call& call, rpc::XdrWriter& results);
  nfs3::Status failed(const Error& error);

  Node& node_;
  Counter& calls_;
  Counter& failures_;
  LogLimiter failure_log_{5};
};

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_OBJECT_PROGRAM_H
