// The key-value store of a server with a backing set.
#ifndef SLICE_SERVICE_BACKING_LOGGED_TABLES_H
#define SLICE_SERVICE_BACKING_LOGGED_TABLES_H

#include <memory>
#include <string>

#include "service/context.h"
#include "storage/kv_store.h"
#include "storage/rocks_store.h"

namespace slice::service {

// Its log and checkpoints are files of the set, of this name; what is read is below the data directory, as
// `tables` says (storage/logged_store.h). Errors as LoggedStore's.
Task<Result<std::unique_ptr<storage::KvStore>>> open_logged_tables(ServiceContext& context, std::string name,
                                                                   storage::RocksStore::Options tables);

}  // namespace slice::service

#endif  // SLICE_SERVICE_BACKING_LOGGED_TABLES_H
