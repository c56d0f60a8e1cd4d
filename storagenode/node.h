// Node: what the operations of a storage node share: its store, what it knows of files, its verifier.
#ifndef SLICE_STORAGENODE_NODE_H
#define SLICE_STORAGENODE_NODE_H

#include <functional>
#include <unordered_map>

#include "service/authority_client.h"
#include "service/context.h"
#include "storagenode/mirrors.h"
#include "storagenode/object_store.h"
#include "storagenode/sites.h"

namespace slice::storagenode {

class Node {
 public:
  // `late_writes`: those that the node has answered.
  Node(service::ServiceContext& context, ObjectStore::Options options,
       std::function<service::LateWrites&()> late_writes);

  service::ServiceContext& context;
  service::AuthorityClient authority;
  ObjectStore store;
  Mirrors mirrors;
  Sites sites;

  ObjectName object_of(const routing::FileHandle& handle) const { return mirrors.object_of(handle); }
  nfs3::Time now() const;
  // How many bytes from `offset` on are in stripes of this server, at most `count`.
  std::uint32_t owned(const routing::FileHandle& handle, std::uint64_t offset, std::uint32_t count) const;

  // Tells the authority of bytes up to `end` that are durable here: waits for it where that may grow the
  // file's durable size, else tells within a second.
  Task<Status> told_durable(routing::FileHandle handle, Epoch epoch, std::uint64_t end, nfs3::Time mtime);
  // The file was truncated or removed.
  void forget(FileId file);

 private:
  struct Told {
    Epoch epoch;
    std::uint64_t end = 0;
  };
  Task<Status> renew_verifier();

  std::unordered_map<FileId, Told> told_;  // durable at the authority; bounded by kMaxTold
};

// A transfer's offset and count within what a file may hold and this server owns. `count` 0: nothing of it.
struct Extent {
  std::uint64_t offset = 0;
  std::uint32_t count = 0;
};
Extent clamp_transfer(const Node& node, const routing::FileHandle& handle, std::uint64_t offset,
                      std::uint32_t count);

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_NODE_H
