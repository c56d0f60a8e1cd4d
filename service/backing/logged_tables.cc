#include "service/backing/logged_tables.h"

#include <utility>

#include "storage/logged_store.h"

namespace slice::service {

Task<Result<std::unique_ptr<storage::KvStore>>> open_logged_tables(ServiceContext& context, std::string name,
                                                                   storage::RocksStore::Options tables) {
  auto store = co_await storage::LoggedStore::open(
      context.loop, context.disk, context.metrics,
      {.name = std::move(name), .tables = std::move(tables), .random = context.random});
  if (!store) co_return fail(std::move(store).error());
  co_return std::unique_ptr<storage::KvStore>(std::move(*store));
}

}  // namespace slice::service
