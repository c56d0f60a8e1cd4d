#include "control/manager/file_store.h"

#include <utility>

#include "storage/durable_file.h"

namespace slice::manager {

Task<Result<Buffer>> FileStore::read(std::string name) {
  return storage::read_file(disk_, std::move(name));
}

Task<Status> FileStore::replace(std::string name, Buffer contents) {
  return storage::replace_file(disk_, std::move(name), std::move(contents));
}

}  // namespace slice::manager
