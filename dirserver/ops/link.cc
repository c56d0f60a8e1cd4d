#include "dirserver/ops/ops.h"

namespace slice::dirserver::ops {
namespace {

constexpr std::uint32_t kLinkMax = nfs3::PathconfOk{}.link_max;

nfs3::Status plan(Change& change, AttributeCell& file, AttributeCell& directory, std::string_view name) {
  if (file.directory()) return nfs3::Status::kIsDir;
  if (dot_or_dot_dot(name)) return nfs3::Status::kExist;
  auto entry = change.look_up(directory, name);
  if (!entry) return entry.error();
  if (entry->target) return nfs3::Status::kExist;
  if (!may(change.request.who, directory, service::kMayWrite | service::kMayExecute)) {
    return nfs3::Status::kAcces;
  }
  if (file.nlink >= kLinkMax) return nfs3::Status::kMlink;
  if (change.volume.space.low()) return nfs3::Status::kNoSpc;
  if (auto linked = change.transaction.link(entry->place, file.self); !linked) {
    return refuse(linked.error()).value();
  }
  ++file.nlink;
  file.ctime = later(change.now, file.ctime);
  change.transaction.change(file);
  ++directory.entries;
  change.touch_directory(directory);
  return nfs3::Status::kOk;
}

}  // namespace

Task<NfsAnswer> link(Volume& volume, NfsRequest& request, const nfs3::LinkArgs& arguments,
                     rpc::XdrWriter& out) {
  Change change(volume, request, out);
  auto file = change.object(request.handle);
  if (!file) co_return co_await change.fail(file.error());
  request.attributes = volume.attributes(**file);
  auto handle = change.open(arguments.link.directory);
  if (!handle) co_return co_await change.fail(handle.error());
  auto directory = change.directory(*handle);
  if (!directory) co_return co_await change.fail(directory.error());
  request.wcc = {.before = wcc_of(**directory), .after = volume.attributes(**directory)};
  if (auto status = plan(change, **file, **directory, arguments.link.name); status != nfs3::Status::kOk) {
    co_return co_await change.fail(status);
  }
  nfs3::encode_result(out, nfs3::Status::kOk,
                      nfs3::LinkResult{.attributes = volume.attributes(**file),
                                       .directory = change.wcc_after(request.wcc, **directory)});
  co_return co_await change.commit();
}

}  // namespace slice::dirserver::ops
