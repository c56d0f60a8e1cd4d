#include "dirserver/ops/ops.h"

namespace slice::dirserver::ops {

Task<NfsAnswer> fsstat(NameSpace& names, SpaceMonitor& space, NfsRequest& request, const nfs3::HandleView&,
                       rpc::XdrWriter& out) {
  SpaceMonitor::Figures figures = co_await space.volume();
  const std::uint64_t files = names.cells.objects().value_or(0) + figures.other_files;
  storage::LogPosition shown;
  auto cell = names.read_object(request.handle, shown);
  if (!cell) co_return co_await refuse_shown(names, request, out, shown, cell.error());
  nfs3::encode_result(out, nfs3::FsstatOk{.attributes = names.attributes(**cell),
                                          .total_bytes = figures.total_bytes,
                                          .free_bytes = figures.free_bytes,
                                          .available_bytes = figures.free_bytes,
                                          .total_files = files + figures.free_files,
                                          .free_files = figures.free_files,
                                          .available_files = figures.free_files});
  co_return co_await answer_shown(names, request, shown, nfs3::Status::kOk);
}

}  // namespace slice::dirserver::ops
