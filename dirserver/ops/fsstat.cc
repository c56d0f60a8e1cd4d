#include <algorithm>

#include "dirserver/ops/ops.h"

namespace slice::dirserver::ops {
namespace {

// What is free, and all that there may be; as far as a limit lets it.
struct Capacity {
  std::uint64_t total = 0, free = 0;
  Capacity within(std::uint64_t limit, std::uint64_t used) const {
    return {std::min(total, limit), std::min(free, limit > used ? limit - used : 0)};
  }
};

}  // namespace

// Of the volume; in a tree that has a quota, of that.
Task<NfsAnswer> fsstat(NameSpace& names, SpaceMonitor& space, QuotaKeeper& quotas, NfsRequest& request,
                       const nfs3::HandleView&, rpc::XdrWriter& out) {
  SpaceMonitor::Figures figures = co_await space.volume();
  const std::uint64_t all_files = names.cells.objects().value_or(0) + figures.other_files;
  Capacity bytes{figures.total_bytes, figures.free_bytes};
  Capacity files{all_files + figures.free_files, figures.free_files};
  const QuotaId tree{QuotaKind::kTree, request.handle.tree.value};
  if (const auto most = quotas.told_most(tree)) {
    const QuotaUsage used = quotas.usage(tree);
    bytes = bytes.within(most->space, used.space);
    files = files.within(most->files, used.files);
  }
  storage::LogPosition shown;
  auto cell = names.read_object(request.handle, shown);
  if (!cell) co_return co_await refuse_shown(names, request, out, shown, cell.error());
  nfs3::encode_result(out, nfs3::FsstatOk{.attributes = names.attributes(**cell),
                                          .total_bytes = bytes.total,
                                          .free_bytes = bytes.free,
                                          .available_bytes = bytes.free,
                                          .total_files = files.total,
                                          .free_files = files.free,
                                          .available_files = files.free});
  co_return co_await answer_shown(names, request, shown, nfs3::Status::kOk);
}

}  // namespace slice::dirserver::ops
