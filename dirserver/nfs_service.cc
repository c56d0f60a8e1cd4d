#include "dirserver/nfs_service.h"

#include "dirserver/ops/ops.h"

namespace slice::dirserver {
namespace {

using nfs3::Procedure;

// What must not be done twice for one call.
bool remembered(Procedure procedure) {
  switch (procedure) {
    case Procedure::kSetattr:
    case Procedure::kCreate:
    case Procedure::kMkdir:
    case Procedure::kSymlink:
    case Procedure::kMknod:
    case Procedure::kRemove:
    case Procedure::kRmdir:
    case Procedure::kRename:
    case Procedure::kLink:
    case Procedure::kSetacl:
      return true;
    default:
      return false;
  }
}

nfs3::Status status_in(std::string_view reply) {
  rpc::XdrReader in(as_bytes(reply));
  return static_cast<nfs3::Status>(in.u32());
}

// What copies of the call are answered from now on; empty: they are carried out. Failures count as well, and
// NFS3ERR_JUKEBOX too: upon it the client sends a new call, and a copy of the old one that came late, or
// waits for this answer, would be done beside that.
std::string reply_of(const service::NfsAnswer& answer, const service::NfsRequest& request,
                     std::string_view appended) {
  if (answer.is_written()) return std::string(appended);
  const std::optional<nfs3::Status> status = answer.final_status();
  if (!status || *status == nfs3::Status::kOk) return {};
  rpc::XdrWriter out;
  nfs3::encode_failure(out, request.procedure, *status, request.attributes, request.wcc);
  return std::string(as_text(out.view()));
}

}  // namespace

NfsService::NfsService(Volume& volume, service::SiteGate& gate)
    : NfsProgram(volume.context, wire::Role::kDirectory, &gate), volume_(volume) {
  serve<nfs3::HandleView>(Procedure::kGetattr, ops::getattr, volume.names);
  serve<nfs3::SetattrArgs>(Procedure::kSetattr, ops::setattr, volume.changes, volume.truncations);
  serve<nfs3::LookupArgs>(Procedure::kLookup, ops::lookup, volume.names);
  serve<nfs3::AccessArgs>(Procedure::kAccess, ops::access, volume.names);
  serve<nfs3::HandleView>(Procedure::kReadlink, ops::readlink, volume.names);
  serve<nfs3::CreateArgs>(Procedure::kCreate, ops::create, volume.changes, volume.cuts);
  serve<nfs3::MkdirArgs>(Procedure::kMkdir, ops::mkdir, volume.changes);
  serve<nfs3::SymlinkArgs>(Procedure::kSymlink, ops::symlink, volume.changes);
  serve<nfs3::MknodArgs>(Procedure::kMknod, ops::mknod, volume.changes);
  serve<nfs3::RemoveArgs>(Procedure::kRemove, ops::remove, volume.changes);
  serve<nfs3::RmdirArgs>(Procedure::kRmdir, ops::rmdir, volume.changes);
  serve<nfs3::RenameArgs>(Procedure::kRename, ops::rename, volume.changes);
  serve<nfs3::LinkArgs>(Procedure::kLink, ops::link, volume.changes);
  serve<nfs3::ReaddirArgs>(Procedure::kReaddir, ops::readdir, volume.names);
  serve<nfs3::ReaddirplusArgs>(Procedure::kReaddirplus, ops::readdirplus, volume.names);
  serve<nfs3::HandleView>(Procedure::kFsstat, ops::fsstat, volume.names, volume.space, volume.quotas);
  serve<nfs3::HandleView>(Procedure::kFsinfo, ops::fsinfo, volume.names);
  serve<nfs3::HandleView>(Procedure::kPathconf, ops::pathconf, volume.names);
  serve<nfs3::GetaclArgs>(Procedure::kGetacl, ops::getacl, volume.names);
  serve<nfs3::SetaclArgs>(Procedure::kSetacl, ops::setacl, volume.changes);
}

// A MKDIR that servers have passed on until nobody may any more goes by its name's hash, as those of the
// version before have it while an ensemble is upgraded: the directory is made here, the name at its parent's
// server.
std::optional<routing::Route> NfsService::place_of(const service::NfsRequest& request) const {
  auto place = NfsProgram::place_of(request);
  const bool stray = place && request.procedure == Procedure::kMkdir && volume_.new_directories.used() &&
                     request.call.relays >= service::Relay::kMaxRelays && !volume_.peers.owns(place->site);
  nfs3::MkdirArgs args;
  if (!stray || !nfs3::decode_arguments(request.call.arguments, args)) return place;
  const std::uint64_t hash = volume_.placement.place(cell_of(request.handle), args.where.name).hash;
  const SiteId by_hash{static_cast<std::uint32_t>(hash) & (volume_.placement.sites() - 1)};
  if (volume_.peers.owns(by_hash)) place->site = by_hash;
  return place;
}

Task<service::NfsAnswer> NfsService::around(const Operation& operation, service::NfsRequest& request,
                                            rpc::XdrWriter& results) {
  if (remembered(request.procedure)) return around_change(operation, request, results);
  bool wait = volume_.held.stops_reading({request.handle.fileid, {}});
  return wait ? after_waiting(operation, request, results) : operation(request, results);
}

// A cell that is prepared to change is not shown before it is decided whether it does.
Task<service::NfsAnswer> NfsService::after_waiting(const Operation& operation, service::NfsRequest& request,
                                                   rpc::XdrWriter& results) {
  co_await volume_.held.until_readable({request.handle.fileid, {}});
  co_return co_await operation(request, results);
}

Task<service::NfsAnswer> NfsService::around_change(const Operation& operation, service::NfsRequest& request,
                                                   rpc::XdrWriter& results) {
  CallKey call = key_of(request.call);
  const SiteId site = request.gated_site ? SiteId{*request.gated_site} : request.handle.directory_site;
  DuplicateCache::Seen seen = volume_.duplicates.begin(call, site);
  // The first one's answer goes to a connection that is no more, and over a new one nothing comes a third
  // time.
  while (seen.state == DuplicateCache::Seen::State::kInProgress && !request.call.datagram) {
    co_await volume_.duplicates.over(call);
    seen = volume_.duplicates.begin(call, site);
  }
  if (seen.state == DuplicateCache::Seen::State::kInProgress) co_return service::NfsAnswer::drop();
  if (seen.state == DuplicateCache::Seen::State::kAnswered) {
    results.fixed(as_bytes(seen.reply));
    co_return service::NfsAnswer::written(status_in(seen.reply));
  }
  std::size_t start = results.size();
  service::NfsAnswer answer = co_await operation(request, results);
  volume_.duplicates.finish(call, reply_of(answer, request, as_text(results.view()).substr(start)));
  co_return answer;
}

}  // namespace slice::dirserver
