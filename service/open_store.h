// The key-value store of a server: RocksDB in its data directory, or, where it has a backing set, with its
// log and its checkpoints there (storage/logged_store.h).
#ifndef SLICE_SERVICE_OPEN_STORE_H
#define SLICE_SERVICE_OPEN_STORE_H

#include <functional>
#include <memory>
#include <string>

#include "service/context.h"
#include "storage/kv_store.h"
#include "storage/rocks_store.h"

namespace slice::service {

// What tests open in place of it.
using OpenStore = std::function<Result<std::unique_ptr<storage::KvStore>>(ServiceContext&)>;

// `name`: of its folder in the data directory, and of its files in the set. `options` are for what is read;
// their folder does not count. Errors as RocksStore's and LoggedStore's.
Task<Result<std::unique_ptr<storage::KvStore>>> open_store(ServiceContext& context, std::string name,
                                                           storage::RocksStore::Options options);

}  // namespace slice::service

#endif  // SLICE_SERVICE_OPEN_STORE_H
