// The NFS procedures of a storage node, one file each. COMMIT is the coordinator's, which asks every node by
// the object program: one node alone could vouch for its own bytes only.
#ifndef SLICE_STORAGENODE_OPS_OPS_H
#define SLICE_STORAGENODE_OPS_OPS_H

#include "service/nfs_program.h"
#include "storagenode/node.h"

namespace slice::storagenode {

Task<service::NfsAnswer> read(Node& node, service::NfsRequest& request, const nfs3::ReadArgs& args,
                              rpc::XdrWriter& results);
Task<service::NfsAnswer> write(Node& node, service::NfsRequest& request, const nfs3::WriteArgs& args,
                               rpc::XdrWriter& results);

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_OPS_OPS_H
