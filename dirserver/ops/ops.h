// The operations of the directory server, one a procedure of NFSv3 (RFC 1813 section 3.3) and of NFSACL, each
// in the file of its name. All have one shape: they write their results, success or failure, and end when
// what these show is durable.
#ifndef SLICE_DIRSERVER_OPS_OPS_H
#define SLICE_DIRSERVER_OPS_OPS_H

#include "dirserver/background/cuts.h"
#include "dirserver/background/space.h"
#include "dirserver/background/truncations.h"
#include "dirserver/ops/change.h"
#include "dirserver/ops/operation.h"

namespace slice::dirserver::ops {

// What stands last is all of the server that the operation may touch.
#define SLICE_DIRSERVER_OPERATION(name, Args, ...) \
  Task<NfsAnswer> name(__VA_ARGS__, NfsRequest& request, const nfs3::Args& arguments, rpc::XdrWriter& out)

SLICE_DIRSERVER_OPERATION(getattr, HandleView, NameSpace& names);
SLICE_DIRSERVER_OPERATION(lookup, LookupArgs, NameSpace& names);
SLICE_DIRSERVER_OPERATION(access, AccessArgs, NameSpace& names);
SLICE_DIRSERVER_OPERATION(readlink, HandleView, NameSpace& names);
SLICE_DIRSERVER_OPERATION(readdir, ReaddirArgs, NameSpace& names);
SLICE_DIRSERVER_OPERATION(readdirplus, ReaddirplusArgs, NameSpace& names);
SLICE_DIRSERVER_OPERATION(fsstat, HandleView, NameSpace& names, SpaceMonitor& space, QuotaKeeper& quotas);
SLICE_DIRSERVER_OPERATION(fsinfo, HandleView, NameSpace& names);
SLICE_DIRSERVER_OPERATION(pathconf, HandleView, NameSpace& names);
SLICE_DIRSERVER_OPERATION(getacl, GetaclArgs, NameSpace& names);

SLICE_DIRSERVER_OPERATION(setattr, SetattrArgs, Changes& changes, Truncations& truncations);
SLICE_DIRSERVER_OPERATION(create, CreateArgs, Changes& changes, Cuts& cuts);
SLICE_DIRSERVER_OPERATION(mkdir, MkdirArgs, Changes& changes);
SLICE_DIRSERVER_OPERATION(symlink, SymlinkArgs, Changes& changes);
SLICE_DIRSERVER_OPERATION(mknod, MknodArgs, Changes& changes);
SLICE_DIRSERVER_OPERATION(remove, RemoveArgs, Changes& changes);
SLICE_DIRSERVER_OPERATION(rmdir, RmdirArgs, Changes& changes);
SLICE_DIRSERVER_OPERATION(rename, RenameArgs, Changes& changes);
SLICE_DIRSERVER_OPERATION(link, LinkArgs, Changes& changes);
SLICE_DIRSERVER_OPERATION(setacl, SetaclArgs, Changes& changes);

#undef SLICE_DIRSERVER_OPERATION

}  // namespace slice::dirserver::ops

#endif  // SLICE_DIRSERVER_OPS_OPS_H
