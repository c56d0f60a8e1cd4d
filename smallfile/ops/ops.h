// The NFS procedures of a small-file server, one file each, for the bytes below the threshold.
#ifndef SLICE_SMALLFILE_OPS_OPS_H
#define SLICE_SMALLFILE_OPS_OPS_H

#include "service/authority_client.h"
#include "service/context.h"
#include "service/nfs_program.h"
#include "smallfile/sites.h"
#include "smallfile/store.h"

namespace slice::smallfile {

// What they share: of their server, which outlives them. One loop.
struct Shared {
  service::ServiceContext& context;
  Store& store;
  Sites& sites;
  service::AuthorityClient& authority;
  Counter& commits_passed_on;
};

// What crosses the threshold is answered short: its own part. Bytes behind this server's end are a hole or
// the end of the file: the size from the handle's hint tells, else the authority.
Task<service::NfsAnswer> read(Shared& shared, service::NfsRequest& request, const nfs3::ReadArgs& args,
                              rpc::XdrWriter& results);
// The authority knows the size before a stable write that moves it is answered.
Task<service::NfsAnswer> write(Shared& shared, service::NfsRequest& request, const nfs3::WriteArgs& args,
                               rpc::XdrWriter& results);
// The authority knows size and mtime before it is answered. The whole file is committed, whatever the range.
// Where storage nodes hold bytes of it too (the proxy believed that it ends below the threshold, but had lost
// sight of it), the coordinator commits it and its answer is passed on.
Task<service::NfsAnswer> commit(Shared& shared, service::NfsRequest& request, const nfs3::CommitArgs& args,
                                rpc::XdrWriter& results);

}  // namespace slice::smallfile

#endif  // SLICE_SMALLFILE_OPS_OPS_H
