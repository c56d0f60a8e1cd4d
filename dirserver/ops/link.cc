#include "dirserver/ops/ops.h"

namespace slice::dirserver::ops {
namespace {

constexpr std::uint32_t kLinkMax = nfs3::PathconfOk{}.link_max;

nfs3::Status check(Change& change, const AttributeCell& file, const AttributeCell& directory,
                   const NamedEntry& entry) {
  if (entry.target) return nfs3::Status::kExist;
  if (!may(change.request.who, directory, service::kMayWrite | service::kMayExecute)) {
    return nfs3::Status::kAcces;
  }
  if (file.nlink >= kLinkMax) return nfs3::Status::kMlink;
  return change.low_on_space() ? nfs3::Status::kNoSpc : nfs3::Status::kOk;
}

nfs3::Status plan(Change& change, const nfs3::LinkArgs& arguments) {
  auto handle = change.open(arguments.link.directory);
  if (handle) change.expect_name(*handle, arguments.link.name);
  auto file = change.object(change.request.handle);
  if (!file) return file.error();
  change.request.attributes = change.names.attributes(**file);
  if (!handle) return handle.error();
  // Nothing is told of another tree, whose exports may not let the caller in.
  if (handle->tree != change.request.handle.tree) return nfs3::Status::kXdev;
  auto directory = change.directory(*handle);
  if (!directory) return directory.error();
  change.request.wcc = change.wcc_before(**directory);
  if ((*file)->directory()) return nfs3::Status::kIsDir;
  if (dot_or_dot_dot(arguments.link.name)) return nfs3::Status::kExist;
  auto entry = change.look_up(**directory, arguments.link.name);
  if (!entry) return entry.error();
  if (auto status = check(change, **file, **directory, *entry); status != nfs3::Status::kOk) return status;

  ++(*file)->nlink;
  (*file)->ctime = later(change.now, (*file)->ctime);
  if (auto status = change.rewrite(**file); status != nfs3::Status::kOk) return status;
  if (auto status = change.link(*entry, (*file)->self); status != nfs3::Status::kOk) return status;
  nfs3::encode_result(change.out, nfs3::Status::kOk,
                      nfs3::LinkResult{.attributes = change.names.attributes(**file),
                                       .directory = change.wcc_after(change.request.wcc, **directory)});
  return nfs3::Status::kOk;
}

}  // namespace

Task<NfsAnswer> link(Changes& changes, NfsRequest& request, const nfs3::LinkArgs& arguments,
                     rpc::XdrWriter& out) {
  return changes.run(request, out, [&arguments](Change& change) { return plan(change, arguments); });
}

}  // namespace slice::dirserver::ops
