// What WRITE and COMMIT wait for.
#ifndef SLICE_SMALLFILE_OPS_DURABLE_H
#define SLICE_SMALLFILE_OPS_DURABLE_H

#include "service/room.h"
#include "smallfile/ops/ops.h"

namespace slice::smallfile {

// Ends when the bytes are durable here.
Task<Status> make_durable(Shared& shared, storage::LogSequence sequence);
// Ends when they are, and size and mtime at the authority.
Task<Status> make_durable_and_tell(Shared& shared, const service::NfsRequest& request,
                                   const Store::Written& written);
// For the attributes of their replies.
service::OwnPart own_part(const Store::Seen& seen);

}  // namespace slice::smallfile

#endif  // SLICE_SMALLFILE_OPS_DURABLE_H
