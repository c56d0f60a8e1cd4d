// free_locks(): a client that was restarted, or says so, has no locks any more, at whatever directory server.
#ifndef SLICE_PROXY_PROGRAMS_FREE_LOCKS_H
#define SLICE_PROXY_PROGRAMS_FREE_LOCKS_H

#include <cstdint>
#include <optional>
#include <string>

#include "common/task.h"
#include "service/context.h"

namespace slice::proxy {

// Of the client at the address that calls itself `host`, but those that its run with NSM's number `keep`
// took. False where some server has not answered in time: then it is to be asked for again. `context`
// outlives the task.
Task<bool> free_locks(service::ServiceContext& context, IpAddress address, std::string host,
                      std::optional<std::int32_t> keep);

}  // namespace slice::proxy

#endif  // SLICE_PROXY_PROGRAMS_FREE_LOCKS_H
