#include "service/names.h"

#include <algorithm>

#include "wire/nfs3_readdir.h"

namespace slice::service {
namespace {

constexpr std::uint32_t kListedBytes = 32 << 10;  // of one answer

// Some entries of a directory.
struct Page {
  std::vector<std::string> names;
  std::uint64_t cookie = 0;
  nfs3::CookieVerifier verifier{};
  bool eof = false;
};

bool decode_result(rpc::XdrReader& in, nfs3::Status& status, Page& out) {
  nfs3::EntryListReader entries(in, false);
  status = entries.status();
  if (status != nfs3::Status::kOk) return true;
  out.verifier = entries.verifier();
  for (nfs3::DirectoryEntry entry; entries.next(entry); out.cookie = entry.cookie) {
    if (entry.name != "." && entry.name != "..") out.names.emplace_back(entry.name);
  }
  out.eof = entries.eof();
  return entries.complete();
}

}  // namespace

Names::Names(Loop& loop, rpc::Channel& channel, const EnsembleConfig& config,
             std::shared_ptr<const routing::RoutingTables> tables, Duration timeout)
    : loop_(loop),
      channel_(channel),
      config_(config),
      tables_(std::move(tables)),
      codec_(config),
      timeout_(timeout) {}

Error Names::error_of(nfs3::Status status, const std::string& path, const std::string& server) {
  switch (status) {
    case nfs3::Status::kNoEnt:
      return {Errc::kNotFound, fmt::format("{}: no such file or directory", path)};
    case nfs3::Status::kNotDir:
      return {Errc::kInvalid, fmt::format("{}: not a directory", path)};
    case nfs3::Status::kExist:
      return {Errc::kExists, fmt::format("{}: it is there already", path)};
    case nfs3::Status::kNotEmpty:
      return {Errc::kInvalid, fmt::format("{}: it is not empty", path)};
    case nfs3::Status::kNotSync:
      return {Errc::kStale, fmt::format("{}: it was changed meanwhile", path)};
    case nfs3::Status::kJukebox:
      return {Errc::kUnavailable, fmt::format("{}: {} goes on answering NFS3ERR_JUKEBOX", path, server)};
    default:
      return {Errc::kIo, fmt::format("{}: {} answered {}", path, server, nfs3::status_name(status))};
  }
}

Error Names::too_long(const std::string& path) {
  return {Errc::kInvalid, fmt::format("{}: a name of more than {} bytes", path, nfs3::kMaxName)};
}

const wire::ServerEntry* Names::server_for(nfs3::Procedure procedure, ByteView arguments) const {
  const auto route = tables_->place_of(procedure, arguments);
  return route ? &server_of(route->site) : nullptr;
}

Names::Found Names::root() const {
  const routing::FileHandle root = routing::root_handle(config_.volume);
  return {.bytes = codec_.mint(root), .handle = root, .name_site = root.directory_site};
}

Task<Result<Names::Found>> Names::look_up(Found directory, std::string name, std::string path) {
  rpc::XdrWriter arguments;
  encode_arguments(arguments, nfs3::DirOpArgs{directory.bytes, name});
  const auto route = tables_->place_of(nfs3::Procedure::kLookup, arguments.view());
  if (!route || name.size() > nfs3::kMaxName) co_return fail(too_long(path));
  const wire::ServerEntry& server = server_of(route->site);
  Found found{.bytes = {}, .handle = {}, .name_site = route->site};
  std::size_t size = 0;
  auto status = co_await call<nfs3::LookupOk>(server.endpoint, nfs3::Procedure::kLookup, arguments.take(),
                                              [&](const nfs3::LookupOk& ok) {
                                                size = std::min(ok.object.size(), found.bytes.size());
                                                std::copy_n(ok.object.begin(), size, found.bytes.begin());
                                              });
  if (!status) co_return fail(status.error(), server.name);
  if (*status != nfs3::Status::kOk) co_return fail(error_of(*status, path, server.name));
  auto handle = codec_.open(ByteView(found.bytes).first(size));
  if (!handle) co_return fail(handle.error(), fmt::format("{}: {} gave", path, server.name));
  found.handle = *handle;
  co_return found;
}

Task<Result<nfs3::Attributes>> Names::attributes(Found of, std::string path) {
  const wire::ServerEntry& server = server_of(of.handle.directory_site);
  rpc::XdrWriter arguments;
  nfs3::encode_arguments(arguments, nfs3::HandleView(of.bytes));
  nfs3::Attributes attributes;
  auto status =
      co_await call<nfs3::GetattrOk>(server.endpoint, nfs3::Procedure::kGetattr, arguments.take(),
                                     [&](const nfs3::GetattrOk& ok) { attributes = ok.attributes; });
  if (!status) co_return fail(status.error(), server.name);
  if (*status != nfs3::Status::kOk) co_return fail(error_of(*status, path, server.name));
  co_return attributes;
}

Task<Result<std::vector<std::string>>> Names::list(Found directory, std::string path) {
  std::vector<std::string> names;
  Page page;
  do {
    rpc::XdrWriter arguments;
    encode_arguments(arguments, nfs3::ReaddirArgs{directory.bytes, page.cookie, page.verifier, kListedBytes});
    const std::uint64_t before = page.cookie;
    SLICE_CO_RETURN_IF_ERROR(co_await ask<Page>(nfs3::Procedure::kReaddir, arguments.take(), path,
                                                [&](Page& answered) { page = std::move(answered); }));
    std::ranges::move(page.names, std::back_inserter(names));
    if (!page.eof && page.cookie == before)
      co_return fail(Errc::kIo, "{}: its listing does not get on", path);
  } while (!page.eof);
  std::ranges::sort(names);
  co_return names;
}

}  // namespace slice::service
