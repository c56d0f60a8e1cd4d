#include "service/file_handles.h"

#include "service/internal_call.h"
#include "wire/authority.h"

namespace slice::service {
namespace {

constexpr Duration kTimeout = std::chrono::seconds(5);

}  // namespace

Task<Result<std::vector<std::optional<SizedFile>>>> handles_of(ServiceContext& context,
                                                               std::vector<FileId> files) {
  auto server_of = [&](FileId file) {
    return context.tables.get()->server_of(wire::Role::kDirectory, routing::directory_site_of(file)).server;
  };
  std::vector<std::optional<SizedFile>> found;
  while (found.size() < files.size()) {
    // Those of one directory server stand together mostly, since fileIDs begin with their site.
    const std::uint32_t asked = server_of(files[found.size()]);
    wire::HandlesArgs args;
    for (std::size_t at = found.size(); at < files.size() && args.files.size() < wire::kMaxHandles; ++at) {
      if (server_of(files[at]) != asked) break;
      args.files.push_back(files[at]);
    }
    const wire::ServerEntry server = *context.tables.get()->server(asked);
    auto result =
        co_await internal_call<wire::HandlesResult>(context.channel, server.endpoint, wire::kAuthorityProgram,
                                                    wire::AuthorityProcedure::kHandles, args, kTimeout);
    if (!result) co_return fail(result.error(), server.name);
    if (result->status != nfs3::Status::kOk || result->files.size() != args.files.size()) {
      co_return fail(Errc::kUnavailable, "{} does not tell which files objects are of: {}", server.name,
                     nfs3::status_name(result->status));
    }
    for (const auto& file : result->files) {
      if (!file) {
        found.emplace_back();
        continue;
      }
      auto handle = context.handles.open(file->handle);
      if (!handle) co_return fail(std::move(handle).error());
      found.emplace_back(SizedFile{*handle, file->size});
    }
  }
  co_return found;
}

}  // namespace slice::service
