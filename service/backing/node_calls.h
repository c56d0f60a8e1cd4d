// What the files of a backing set are read by at one of its nodes (wire/backing.h), by the owner and by who
// stands by. One loop; the channel outlives the calls.
#ifndef SLICE_SERVICE_BACKING_NODE_CALLS_H
#define SLICE_SERVICE_BACKING_NODE_CALLS_H

#include <functional>
#include <vector>

#include "rpc/channel.h"
#include "wire/backing.h"

namespace slice::service {

struct NodeRead {
  wire::BackingStatus status = wire::BackingStatus::kOk;
  std::size_t bytes = 0;
};
// READ of as many bytes as `into` has, whatever `args` say. kInvalid: the reply is none.
Task<Result<NodeRead>> read_at_node(rpc::Channel& channel, rpc::Endpoint node, wire::BackingReadArgs args,
                                    Duration timeout, ByteSpan into);

// LIST of all behind args.behind: `take` gets it page by page. kIo: the node refuses.
using NodePage = std::vector<wire::BackingFile>;
Task<Status> list_node(rpc::Channel& channel, rpc::Endpoint node, wire::BackingListArgs args,
                       Duration timeout, std::function<void(NodePage)> take);

}  // namespace slice::service

#endif  // SLICE_SERVICE_BACKING_NODE_CALLS_H
