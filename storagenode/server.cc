#include "storagenode/server.h"

#include "storagenode/object_format.h"
#include "storagenode/ops/ops.h"

namespace slice::storagenode {

using nfs3::Procedure;
using service::NfsRequest;

StorageServer::StorageServer(service::ServiceContext& context)
    : node_(context, {.reserve_bytes = context.settings.get()->reserve_of(context.self)},
            [this]() -> service::LateWrites& { return nfs_.late_writes(); }),
      nfs_(context, wire::Role::kStorage, &node_.sites.gate()),
      moves_(context, wire::Role::kStorage, node_.sites.gate(), node_.sites),
      objects_(node_, moves_),
      scrubber_(node_.store, {}),
      backing_files_({.loop = context.loop,
                      .disk = context.disk,
                      .metrics = context.metrics,
                      .crash = context.crash,
                      .reserve = [&context] { return context.settings.get()->reserve_of(context.self); }}),
      backing_(backing_files_, context.metrics) {
  nfs_.set_authority(node_.authority);
  nfs_.on<nfs3::ReadArgs>(Procedure::kRead,
                          [this](NfsRequest& request, const nfs3::ReadArgs& args, rpc::XdrWriter& results) {
                            return read(node_, request, args, results);
                          });
  nfs_.on<nfs3::WriteArgs>(Procedure::kWrite,
                           [this](NfsRequest& request, const nfs3::WriteArgs& args, rpc::XdrWriter& results) {
                             return write(node_, request, args, results);
                           });
}

Task<Status> StorageServer::start() {
  SLICE_CO_RETURN_IF_ERROR(co_await node_.store.open());
  SLICE_CO_RETURN_IF_ERROR(co_await backing_files_.start());
  node_.mirrors.start();
  moves_.start();
  scrubber_.start();
  co_return Status{};
}

Task<void> StorageServer::stop() {
  co_await backing_files_.leave();
  co_await node_.mirrors.leave();
  co_await moves_.stop();
  co_await scrubber_.stop();
  co_await backing_files_.stop();
  co_await node_.store.stop();
  co_await node_.authority.flush();
}

void StorageServer::settings_changed() {
  node_.store.set_reserve(node_.context.settings.get()->reserve_of(node_.context.self));
}

std::string StorageServer::state() const {
  return node_.store.out_of_space() ? "read-only: no space" : "serving";
}

std::unique_ptr<service::Role> make_storage_server(service::ServiceContext& context) {
  return std::make_unique<StorageServer>(context);
}

service::ServerKind server_kind() {
  return {.role = ServerRole::kStorage, .draws_verifier = true, .make = make_storage_server};
}

}  // namespace slice::storagenode
