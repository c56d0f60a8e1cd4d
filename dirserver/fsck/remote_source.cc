#include "dirserver/fsck/remote_source.h"

#include "service/internal_call.h"
#include "service/managers.h"
#include "wire/nfs_status.h"

namespace slice::dirserver::fsck {
namespace {

constexpr unsigned kTries = 20;  // for a site that its server says is another's
constexpr Duration kPause = std::chrono::milliseconds(250);

}  // namespace

RemoteSource::RemoteSource(const Seams& seams)
    : seams_(seams),
      tables_(
          routing::RoutingTables::make(seams.config, routing::RoutingTables::initial(seams.config)).value()) {
}

Task<Status> RemoteSource::take_tables() {
  service::Managers managers(seams_.config);
  auto tables = co_await managers.call<wire::Tables>(seams_.channel, wire::ManagerProcedure::kGetTables,
                                                     service::NoArguments{}, seams_.timeout);
  if (!tables) co_return fail(tables.error(), "the manager does not answer");
  auto made = routing::RoutingTables::make(seams_.config, *tables);
  if (!made) co_return fail(std::move(made).error());
  tables_ = std::move(*made);
  co_return Status{};
}

Task<Result<wire::ScanResult>> RemoteSource::scan(wire::ScanArgs args) {
  for (unsigned tries = 1;; ++tries) {
    const wire::ServerEntry server = tables_->server_of(wire::Role::kDirectory, args.site);
    auto result =
        co_await service::internal_call<wire::ScanResult>(seams_.channel, server.endpoint, wire::kScanProgram,
                                                          wire::ScanProcedure::kScan, args, seams_.timeout);
    if (!result) co_return fail(result.error(), fmt::format("site {} at {}", args.site.value, server.name));
    if (result->status == nfs3::Status::kOk) {
      if (result->values.size() != args.keys.size()) {
        co_return fail(Errc::kInvalid, "{} answered for {} of {} keys", server.name, result->values.size(),
                       args.keys.size());
      }
      co_return result;
    }
    if (result->status != nfs3::Status::kJukebox || tries == kTries) {
      co_return fail(Errc::kUnavailable, "site {}: {} answered {}", args.site.value, server.name,
                     nfs3::status_name(result->status));
    }
    co_await seams_.loop.sleep(kPause);
    (void)co_await take_tables();
  }
}

}  // namespace slice::dirserver::fsck
