#include "service/access.h"

#include <algorithm>

namespace slice::service {
namespace {

Identity squash(const ExportConfig& entry, const rpc::Call& call) {
  Identity who;
  who.read_only = entry.read_only;
  who.uid = entry.anonymous_uid;
  who.gid = entry.anonymous_gid;
  const bool unknown = !call.has_auth_sys || call.credential.uid == rpc::kNoUser;
  if (entry.squash == ExportConfig::Squash::kAll || unknown) return who;
  bool roots = entry.squash == ExportConfig::Squash::kNone;
  if (roots || call.credential.uid != 0) who.uid = call.credential.uid;
  if (roots || call.credential.gid != 0) who.gid = call.credential.gid;
  who.groups = call.credential.groups;
  if (!roots) std::replace(who.groups.begin(), who.groups.end(), 0u, entry.anonymous_gid);
  return who;
}

tl::expected<Identity, Stranger> squash_beside(const ExportConfig* entry, const rpc::Call& call) {
  if (auto stranger = find_stranger_beside(entry, call.client)) return tl::unexpected(*stranger);
  return squash(*entry, call);
}

Identity of_the_ensemble() {
  return {.uid = 0, .gid = 0, .groups = {}, .read_only = false};
}

bool is_directory(const nfs3::Attributes& attributes) {
  return attributes.type == nfs3::FileType::kDirectory;
}

// By the list of an object whose owner it is not.
bool listed(const Identity& who, const nfs3::ExtendedAccess& access, const nfs3::Attributes& attributes,
            unsigned wanted) {
  const unsigned mask = attributes.mode >> 3;
  const auto gives = [&](unsigned permissions) { return (permissions & mask & wanted) == wanted; };
  for (const nfs3::NamedAccess& user : access.users) {
    if (user.id == who.uid) return gives(user.permissions);
  }
  bool member = who.in_group(attributes.gid);
  if (member && gives(access.group)) return true;
  for (const nfs3::NamedAccess& group : access.groups) {
    if (!who.in_group(group.id)) continue;
    if (gives(group.permissions)) return true;
    member = true;
  }
  return !member && (attributes.mode & wanted) == wanted;
}

}  // namespace

bool Identity::in_group(std::uint32_t group) const {
  return gid == group || std::find(groups.begin(), groups.end(), group) != groups.end();
}

rpc::Refused refused(Stranger why) {
  switch (why) {
    case Stranger::kUnreservedPort:
      return rpc::Refused::kPort;
    case Stranger::kTransport:
      return rpc::Refused::kTransport;
    case Stranger::kFlavor:
      return rpc::Refused::kFlavor;
    case Stranger::kNoExport:
      break;
  }
  return rpc::Refused::kExport;
}

std::optional<Stranger> find_stranger_beside(const ExportConfig* entry, rpc::Endpoint client) {
  if (entry == nullptr) return Stranger::kNoExport;
  if (!entry->takes_port(client.port)) return Stranger::kUnreservedPort;
  return std::nullopt;
}

std::optional<Stranger> find_stranger(const ExportConfig* entry, rpc::Endpoint client, CallSecurity how) {
  if (entry != nullptr && !entry->transports.has(how.transport)) return Stranger::kTransport;
  if (entry != nullptr && !entry->flavors.has(how.flavor)) return Stranger::kFlavor;
  return find_stranger_beside(entry, client);
}

tl::expected<Identity, Stranger> identify_beside(const Settings& settings, TreeId tree,
                                                 const rpc::Call& call) {
  if (call.internal) return of_the_ensemble();
  return squash_beside(settings.export_for(tree, call.client.address), call);
}

tl::expected<Identity, Stranger> identify_beside(const Settings& settings, const rpc::Call& call) {
  if (call.internal) return of_the_ensemble();
  return squash_beside(settings.any_export_for(call.client.address), call);
}

tl::expected<Identity, Stranger> identify(const Settings& settings, TreeId tree, const rpc::Call& call) {
  if (call.internal) return of_the_ensemble();
  const ExportConfig* entry = settings.export_for(tree, call.client.address);
  if (auto stranger = find_stranger(entry, call.client, call.security)) return tl::unexpected(*stranger);
  return squash(*entry, call);
}

bool may(const Identity& who, const Permissions& of, unsigned wanted) {
  const nfs3::Attributes& attributes = of.attributes;
  if (who.superuser()) {
    bool runs = is_directory(attributes) || (attributes.mode & 0111) != 0;
    return (wanted & kMayExecute) == 0 || runs;
  }
  unsigned bits = attributes.mode;
  if (who.uid == attributes.uid) {
    bits >>= 6;
  } else if (of.access != nullptr) {
    return listed(who, *of.access, attributes, wanted);
  } else if (who.in_group(attributes.gid)) {
    bits >>= 3;
  }
  return (bits & wanted) == wanted;
}

bool may_transfer(const Identity& who, const Permissions& of, bool write) {
  if (who.superuser() || who.uid == of.attributes.uid) return true;
  if (write) return may(who, of, kMayWrite);
  return may(who, of, kMayRead) || may(who, of, kMayExecute);
}

bool write_clears_set_id(const Identity& who, const nfs3::Attributes& attributes) {
  constexpr std::uint32_t kSetIds = 06000;
  return !who.superuser() && (attributes.mode & kSetIds) != 0;
}

std::uint32_t access_mask(const Identity& who, const Permissions& of, std::uint32_t asked) {
  std::uint32_t granted = 0;
  if (may(who, of, kMayRead)) granted |= nfs3::kAccessRead;
  bool execute = may(who, of, kMayExecute);
  if (is_directory(of.attributes)) {
    if (execute) granted |= nfs3::kAccessLookup;
    if (may(who, of, kMayWrite | kMayExecute)) {
      granted |= nfs3::kAccessModify | nfs3::kAccessExtend | nfs3::kAccessDelete;
    }
  } else {
    if (execute) granted |= nfs3::kAccessExecute;
    if (may(who, of, kMayWrite)) granted |= nfs3::kAccessModify | nfs3::kAccessExtend;
  }
  if (who.read_only) granted &= ~(nfs3::kAccessModify | nfs3::kAccessExtend | nfs3::kAccessDelete);
  return granted & asked;
}

}  // namespace slice::service
