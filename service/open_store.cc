#include "service/open_store.h"

#include <utility>

#include "storage/logged_store.h"

namespace slice::service {
namespace {

template <class Store>
Result<std::unique_ptr<storage::KvStore>> as_store(Result<std::unique_ptr<Store>> opened) {
  if (!opened) return fail(std::move(opened).error());
  return std::unique_ptr<storage::KvStore>(std::move(*opened));
}

}  // namespace

Task<Result<std::unique_ptr<storage::KvStore>>> open_store(ServiceContext& context, std::string name,
                                                           storage::RocksStore::Options options) {
  options.folder = context.self.data + "/" + name;
  if (context.self.backing_copies == 0) {
    co_return as_store(storage::RocksStore::open(context.loop, context.metrics, options));
  }
  co_return as_store(co_await storage::LoggedStore::open(
      context.loop, context.disk, context.metrics,
      {.name = std::move(name), .tables = std::move(options), .random = context.random}));
}

}  // namespace slice::service
