#include "proxy/programs/mount_program.h"

#include "routing/place.h"
#include "rpc/gss.h"
#include "service/access.h"
#include "wire/nfs3.h"

namespace slice::proxy {

using MountStatus = mount3::Status;

namespace {

constexpr std::size_t kMaxMounts = 4096;          // that DUMP tells of
constexpr std::size_t kMaxMountsOfClient = 64;    //
constexpr std::size_t kMaxMountBytes = 64 << 10;  // of their paths
constexpr std::size_t kMaxComponents = 128;

MountStatus mount_status(nfs3::Status status) {
  switch (status) {
    case nfs3::Status::kOk:
      return MountStatus::kOk;
    case nfs3::Status::kPerm:
      return MountStatus::kPerm;
    case nfs3::Status::kNoEnt:
    case nfs3::Status::kStale:
      return MountStatus::kNoEnt;
    case nfs3::Status::kIo:
      return MountStatus::kIo;
    case nfs3::Status::kAcces:
      return MountStatus::kAcces;
    case nfs3::Status::kNotDir:
      return MountStatus::kNotDir;
    case nfs3::Status::kInval:
      return MountStatus::kInval;
    case nfs3::Status::kNameTooLong:
      return MountStatus::kNameTooLong;
    case nfs3::Status::kNotSupp:
      return MountStatus::kNotSupp;
    default:
      return MountStatus::kServerFault;
  }
}

std::vector<std::string> components(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    std::size_t end = std::min(path.find('/'), path.size());
    std::string_view part = path.substr(0, end);
    if (!part.empty() && part != ".") parts.emplace_back(part);
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return parts;
}

// As clients name what is at `path` within the volume.
std::string asked_as(const std::string& export_path, const std::string& path) {
  if (path == "/") return export_path;
  return export_path == "/" ? path : export_path + path;
}

// Of a client that no export lets in, whatever it is of: why.
std::optional<service::Stranger> stranger_everywhere(const Settings& settings, rpc::Endpoint client) {
  const bool welcome =
      std::any_of(settings.exports.begin(), settings.exports.end(), [&](const ExportConfig& entry) {
        return entry.clients.has(client.address) && entry.takes_port(client.port);
      });
  if (welcome) return std::nullopt;
  return service::find_stranger_beside(settings.any_export_for(client.address), client);
}

}  // namespace

std::optional<std::vector<std::string>> path_below(std::string_view path, std::string_view export_path) {
  // libnfs asks for "" where it means "/".
  if (!path.empty() && !path.starts_with('/')) return std::nullopt;
  std::vector<std::string> parts = components(path), root = components(export_path);
  if (parts.size() < root.size() || !std::equal(root.begin(), root.end(), parts.begin())) return std::nullopt;
  parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(root.size()));
  return parts;
}

MountProgram::MountProgram(const EnsembleConfig& config, const LiveSettings& settings, Tables tables,
                           rpc::Channel& channel, Metrics& metrics)
    : config_(config),
      settings_(settings),
      tables_(tables),
      channel_(channel),
      handles_(config),
      mounts_(metrics.counter("proxy_mounts_total", "MNT calls that got a handle")),
      refused_(metrics.counter("proxy_mounts_refused_total", "MNT calls that got no handle")),
      unreserved_ports_(metrics.counter(
          "proxy_mounts_unreserved_ports_total",
          "MNT calls refused since they came from ports of 1024 and above and their export is secure")),
      refusals_(metrics) {}

std::vector<mount3::ExportEntry> MountProgram::exports() const {
  const auto settings = settings_.get();
  std::vector<mount3::ExportEntry> entries;
  for (const ExportConfig& allowed : settings->exports) {
    if (allowed.path != "/" && settings->tree_at(allowed.path) == nullptr) continue;
    const std::string path = asked_as(settings->export_path, allowed.path);
    auto entry =
        std::find_if(entries.begin(), entries.end(), [&](const auto& each) { return each.path == path; });
    if (entry == entries.end()) entry = entries.insert(entry, {path, {}});
    entry->groups.push_back(network_text(allowed.clients));
  }
  return entries;
}

Task<rpc::Outcome> MountProgram::handle(const rpc::Call& call, rpc::XdrWriter& results) {
  switch (static_cast<mount3::Procedure>(call.procedure)) {
    case mount3::Procedure::kMnt: {
      std::string_view path;
      if (!mount3::decode_path(call.arguments, path)) co_return rpc::Outcome::kGarbage;
      std::string copy(path);
      Found found = co_await mount(call.client, copy);
      if (found.status == MountStatus::kOk) {
        mounts_.add();
        note(call.client.address, copy);
      } else {
        refused_.add();
        note_refused(call.client, copy, found);
      }
      mount3::encode(results, {found.status, found.handle, flavors(call.client.address, found.tree)});
      co_return rpc::Outcome::kReply;
    }
    case mount3::Procedure::kDump: {
      std::vector<mount3::MountEntry> all;
      for (const auto& [host, path] : mounted_) all.push_back({host, path});
      mount3::encode(results, all);
      co_return rpc::Outcome::kReply;
    }
    case mount3::Procedure::kUmnt: {
      std::string_view path;
      if (!mount3::decode_path(call.arguments, path)) co_return rpc::Outcome::kGarbage;
      if (mounted_.erase({address_text(call.client.address), std::string(path)}) > 0) {
        mounted_bytes_ -= path.size();
      }
      co_return rpc::Outcome::kReply;
    }
    case mount3::Procedure::kUmntall: {
      std::string host = address_text(call.client.address);
      std::erase_if(mounted_, [&](const auto& entry) {
        if (entry.first == host) mounted_bytes_ -= entry.second.size();
        return entry.first == host;
      });
      co_return rpc::Outcome::kReply;
    }
    case mount3::Procedure::kExport:
      mount3::encode(results, exports());
      co_return rpc::Outcome::kReply;
    default:
      co_return rpc::Outcome::kNoProcedure;
  }
}

// By which the client's users may come to what is in that tree; a client that was told none takes the first
// that it has (RFC 2623 section 2.7).
std::vector<std::uint32_t> MountProgram::flavors(IpAddress client, TreeId tree) const {
  const auto settings = settings_.get();
  const ExportConfig* entry = settings->export_for(tree, client);
  const SecurityFlavors taken = entry != nullptr ? entry->flavors : SecurityFlavors{};
  std::vector<std::uint32_t> out;
  if (taken.has(SecurityFlavor::kSys)) out = {rpc::kAuthSys, rpc::kAuthNone};
  if (config_.proxy.kerberos_keytab.empty()) return out;
  for (const SecurityFlavor each : {SecurityFlavor::kKrb5, SecurityFlavor::kKrb5i, SecurityFlavor::kKrb5p}) {
    if (taken.has(each)) out.push_back(rpc::pseudo_flavor(each));
  }
  return out;
}

// What it cannot have since a server did not answer is no matter of access.
void MountProgram::note_refused(rpc::Endpoint client, const std::string& path, const Found& found) {
  if (found.status == MountStatus::kServerFault) return;
  constexpr std::size_t kMostOfPath = 128;
  refusals_.note(found.why, client, "MNT '{}', answered {}", std::string_view(path).substr(0, kMostOfPath),
                 static_cast<std::uint32_t>(found.status));
}

// What a client is remembered for is bounded: it may ask for as many paths as it likes.
void MountProgram::note(IpAddress address, const std::string& path) {
  std::string host = address_text(address);
  std::size_t of_client = 0;
  for (auto at = mounted_.lower_bound({host, ""}); at != mounted_.end() && at->first == host; ++at) {
    ++of_client;
  }
  if (mounted_.size() >= kMaxMounts || of_client >= kMaxMountsOfClient) return;
  if (mounted_bytes_ + path.size() > kMaxMountBytes) return;
  if (mounted_.emplace(std::move(host), path).second) mounted_bytes_ += path.size();
}

Task<MountProgram::Found> MountProgram::mount(rpc::Endpoint client, std::string path) {
  // For who may not come in anywhere nobody looks.
  if (auto stranger = stranger_everywhere(*settings_.get(), client)) co_return refused(*stranger);
  Found found = co_await walk(std::move(path));
  if (found.status == MountStatus::kServerFault) co_return found;
  // What is in a tree, and what is not there, is nobody's business whom its exports do not let in.
  const auto settings = settings_.get();
  if (auto stranger = service::find_stranger_beside(settings->export_for(found.tree, client.address), client))
    co_return refused(*stranger);
  co_return found;
}

MountProgram::Found MountProgram::refused(service::Stranger why) {
  if (why == service::Stranger::kUnreservedPort) unreserved_ports_.add();
  return {.status = MountStatus::kAcces, .handle = {}, .why = service::refused(why)};
}

Task<MountProgram::Found> MountProgram::walk(std::string path) {
  if (path.size() > mount3::kMaxPath) co_return Found{MountStatus::kNameTooLong, {}};
  auto below = path_below(path, settings_.get()->export_path);
  // What lies beside the export is nobody's business: whether it exists is not said.
  if (!below) co_return Found{MountStatus::kAcces, {}};
  if (below->size() > kMaxComponents) co_return Found{MountStatus::kNameTooLong, {}};
  routing::HandleBytes root = handles_.mint(routing::root_handle(config_.volume));
  Found found{MountStatus::kOk, {root.begin(), root.end()}};
  for (const std::string& name : *below) {
    if (name.size() > mount3::kMaxName) co_return Found{MountStatus::kNameTooLong, {}};
    if (name == "..") co_return Found{MountStatus::kAcces, {}};
    Found next = co_await step(found.handle, name);
    if (next.status != MountStatus::kOk) {
      next.tree = found.tree;
      co_return next;
    }
    found = std::move(next);
  }
  co_return found;
}

// One LOOKUP, as the ensemble itself: the client's own permissions count when it uses the handle.
Task<MountProgram::Found> MountProgram::step(const std::vector<std::uint8_t>& directory,
                                             const std::string& name) {
  rpc::XdrWriter arguments;
  nfs3::encode_arguments(arguments, nfs3::DirOpArgs{directory, name});
  slice_request wanted{};
  wanted.procedure = SLICE_NFS_LOOKUP;
  wanted.handle = directory.data();
  wanted.fileid = slice_be64(directory.data() + SLICE_HANDLE_AT_FILEID);
  wanted.directory_site = slice_be16(directory.data() + SLICE_HANDLE_AT_SITE);
  wanted.name = reinterpret_cast<const std::uint8_t*>(name.data());
  wanted.name_length = static_cast<std::uint32_t>(name.size());
  slice_route route = routing::place_of(*tables_.config, wanted, wanted.name + name.size());
  auto server = tables_.endpoint_of(route.site_class, route.site);
  if (!server) co_return Found{MountStatus::kServerFault, {}};
  rpc::Request request;
  request.to = *server;
  request.program = nfs3::kProgram;
  request.version = nfs3::kVersion;
  request.procedure = SLICE_NFS_LOOKUP;
  request.arguments = arguments.take();
  auto response = co_await channel_.call(std::move(request));
  if (!response) {
    if (no_answer_limit_.allow())
      log_warning("mount: no answer to LOOKUP of '{}': {}", name, response.error().message);
    co_return Found{MountStatus::kServerFault, {}};
  }
  rpc::XdrReader in(response->results());
  nfs3::Status status{};
  nfs3::LookupOk ok;
  if (!nfs3::decode_result(in, status, ok)) co_return Found{MountStatus::kServerFault, {}};
  if (status != nfs3::Status::kOk) co_return Found{mount_status(status), {}};
  auto handle = handles_.open(ok.object);
  if (!handle) co_return Found{MountStatus::kServerFault, {}};
  if (handle->type != nfs3::FileType::kDirectory) co_return Found{MountStatus::kNotDir, {}};
  co_return Found{
      .status = MountStatus::kOk, .handle = {ok.object.begin(), ok.object.end()}, .tree = handle->tree};
}

}  // namespace slice::proxy
