// Routes (wire/routes.h) from a proxy's tables, and into those of a proxy on a client's own host.
#ifndef SLICE_PROXY_TABLES_ROUTES_H
#define SLICE_PROXY_TABLES_ROUTES_H

#include "proxy/tables/tables.h"
#include "wire/routes.h"

namespace slice::proxy {

// What the tables say at this moment; `changed` is set. Any thread.
wire::Routes routes_of(const Tables& tables);
// Makes the tables say that. One thread. The hash's key is not among it, and attributes are not patched.
// kInvalid, and nothing is changed, where the tables are another volume's, or sites would be as many as no
// reconfiguration makes them.
Status follow(const wire::Routes& routes, const Tables& tables);

}  // namespace slice::proxy

#endif  // SLICE_PROXY_TABLES_ROUTES_H
