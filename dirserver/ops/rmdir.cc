#include "dirserver/ops/ops.h"
#include "dirserver/ops/unlink.h"

namespace slice::dirserver::ops {
namespace {

nfs3::Status plan(Change& change, const nfs3::RmdirArgs& arguments) {
  if (arguments.name == ".") return nfs3::Status::kInval;
  if (arguments.name == "..") return nfs3::Status::kExist;
  auto found = find_victim(change, arguments);
  if (!found) return found.error();
  if (!found->cell->directory()) return nfs3::Status::kNotDir;
  if (found->cell->entries > 0) return nfs3::Status::kNotEmpty;
  unlink_victim(change, *found);
  return nfs3::Status::kOk;
}

}  // namespace

Task<NfsAnswer> rmdir(Volume& volume, NfsRequest& request, const nfs3::RmdirArgs& arguments,
                      rpc::XdrWriter& out) {
  Change change(volume, request, out);
  auto directory = change.directory(request.handle);
  if (!directory) co_return co_await change.fail(directory.error());
  request.wcc = {.before = wcc_of(**directory), .after = volume.attributes(**directory)};
  if (auto status = plan(change, arguments); status != nfs3::Status::kOk) {
    co_return co_await change.fail(status);
  }
  nfs3::encode_result(out, nfs3::Status::kOk, change.wcc_after(request.wcc, **directory));
  co_return co_await change.commit();
}

}  // namespace slice::dirserver::ops
