// The operations of the directory server, one a procedure of NFSv3 (RFC 1813 section 3.3), each in the file
// of its name. All have one shape: they write their results, success or failure, and end when what these
// show is durable.
#ifndef SLICE_DIRSERVER_OPS_OPS_H
#define SLICE_DIRSERVER_OPS_OPS_H

#include "dirserver/operation.h"

namespace slice::dirserver::ops {

#define SLICE_DIRSERVER_OPERATION(name, Args) \
  Task<NfsAnswer> name(Volume& volume, NfsRequest& request, const nfs3::Args& arguments, rpc::XdrWriter& out)

SLICE_DIRSERVER_OPERATION(getattr, HandleView);
SLICE_DIRSERVER_OPERATION(setattr, SetattrArgs);
SLICE_DIRSERVER_OPERATION(lookup, LookupArgs);
SLICE_DIRSERVER_OPERATION(access, AccessArgs);
SLICE_DIRSERVER_OPERATION(readlink, HandleView);
SLICE_DIRSERVER_OPERATION(create, CreateArgs);
SLICE_DIRSERVER_OPERATION(mkdir, MkdirArgs);
SLICE_DIRSERVER_OPERATION(symlink, SymlinkArgs);
SLICE_DIRSERVER_OPERATION(mknod, MknodArgs);
SLICE_DIRSERVER_OPERATION(remove, RemoveArgs);
SLICE_DIRSERVER_OPERATION(rmdir, RmdirArgs);
SLICE_DIRSERVER_OPERATION(rename, RenameArgs);
SLICE_DIRSERVER_OPERATION(link, LinkArgs);
SLICE_DIRSERVER_OPERATION(readdir, ReaddirArgs);
SLICE_DIRSERVER_OPERATION(readdirplus, ReaddirplusArgs);
SLICE_DIRSERVER_OPERATION(fsstat, HandleView);
SLICE_DIRSERVER_OPERATION(fsinfo, HandleView);
SLICE_DIRSERVER_OPERATION(pathconf, HandleView);

#undef SLICE_DIRSERVER_OPERATION

}  // namespace slice::dirserver::ops

#endif  // SLICE_DIRSERVER_OPS_OPS_H
