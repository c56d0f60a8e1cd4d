// Names: what members of the ensemble ask directory servers about names, as the superuser and straight at the
// server that the tables say. One loop.
//
//   Names names(loop, channel, config, tables, timeout);
//   auto found = co_await names.look_up(names.root(), "home", "/home");
#ifndef SLICE_SERVICE_NAMES_H
#define SLICE_SERVICE_NAMES_H

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/config.h"
#include "common/loop.h"
#include "routing/file_handle.h"
#include "routing/tables.h"
#include "rpc/channel.h"
#include "wire/nfs3.h"
#include "wire/nfs_status.h"

namespace slice::service {

class Names {
 public:
  // `config` and what is referred to outlive it; `timeout` is of one call.
  Names(Loop& loop, rpc::Channel& channel, const EnsembleConfig& config,
        std::shared_ptr<const routing::RoutingTables> tables, Duration timeout);

  struct Found {
    routing::HandleBytes bytes{};
    routing::FileHandle handle;
    SiteId name_site;  // directory site that the name was looked up at; the root: its own
  };
  Found root() const;
  // Errors are about `path`, and name the server: kNotFound, kInvalid (no directory, too long a name),
  // kUnavailable, kIo. Symbolic links are not followed.
  Task<Result<Found>> look_up(Found directory, std::string name, std::string path);
  Task<Result<nfs3::Attributes>> attributes(Found of, std::string path);
  // The names in a directory but for "." and "..", sorted.
  Task<Result<std::vector<std::string>>> list(Found directory, std::string path);
  // One procedure with its arguments, at the server that they are for; `use` gets what it is answered.
  // Further errors: kExists; kInvalid, it is not empty; kStale, it was changed meanwhile (a guard).
  template <class Ok, class Use>
  Task<Status> ask(nfs3::Procedure procedure, Buffer arguments, std::string path, Use use) {
    const wire::ServerEntry* server = server_for(procedure, arguments.view());
    if (server == nullptr) co_return fail(too_long(path));
    auto status = co_await call<Ok>(server->endpoint, procedure, std::move(arguments), std::move(use));
    if (!status) co_return fail(status.error(), server->name);
    if (*status != nfs3::Status::kOk) co_return fail(error_of(*status, path, server->name));
    co_return Status{};
  }

  // One call; asked again while it is answered NFS3ERR_JUKEBOX. `use` is called with the results of a
  // success.
  template <class Ok, class Use>
  Task<Result<nfs3::Status>> call(rpc::Endpoint to, nfs3::Procedure procedure, Buffer arguments, Use use) {
    for (unsigned tries = 0;; ++tries) {
      rpc::Request request;
      request.to = to;
      request.program = nfs3::kProgram;
      request.version = nfs3::kVersion;
      request.procedure = static_cast<std::uint32_t>(procedure);
      request.arguments = arguments.clone();
      request.timeout = timeout_;
      auto response = co_await channel_.call(std::move(request));
      if (!response) co_return fail(std::move(response).error());
      rpc::XdrReader in(response->results());
      nfs3::Status status = nfs3::Status::kOk;
      Ok ok{};
      if (!decode_result(in, status, ok)) co_return fail(Errc::kInvalid, "a reply that does not decode");
      if (status == nfs3::Status::kJukebox && tries < kJukeboxTries) {
        co_await loop_.sleep(kJukeboxDelay);
        continue;
      }
      if (status == nfs3::Status::kOk) use(ok);
      co_return status;
    }
  }
  const wire::ServerEntry& server_of(SiteId site) const {
    return tables_->server_of(wire::Role::kDirectory, site);
  }
  static Error error_of(nfs3::Status status, const std::string& path, const std::string& server);

 private:
  static constexpr Duration kJukeboxDelay = std::chrono::milliseconds(200);
  static constexpr unsigned kJukeboxTries = 25;
  // Null where the routing core does not take the arguments.
  const wire::ServerEntry* server_for(nfs3::Procedure procedure, ByteView arguments) const;
  static Error too_long(const std::string& path);

  Loop& loop_;
  rpc::Channel& channel_;
  const EnsembleConfig& config_;
  std::shared_ptr<const routing::RoutingTables> tables_;
  const routing::HandleCodec codec_;
  const Duration timeout_;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_NAMES_H
