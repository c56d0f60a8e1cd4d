#include "coordinator/pieces.h"

#include <algorithm>

#include "service/file_handles.h"
#include "service/object_source.h"
#include "wire/authority.h"

namespace slice::coordinator {
namespace {

constexpr std::size_t kFilePage = wire::kMaxHandles;  // of files that are looked at together
constexpr Duration kListTimeout = std::chrono::seconds(5);

std::uint64_t stripes_of(std::uint64_t size, const routing::FileHandle& handle) {
  return size == 0 ? 0 : ((size - 1) >> handle.stripe_shift) + 1;
}

}  // namespace

Task<Status> Pieces::recorded(Visit visit) {
  BlockMaps::Page page;
  while (!page.end) {
    auto next = maps_.list(page.last, kFilePage, [this](FileId file) { return gate_.owns(file); });
    if (!next) co_return fail(std::move(next).error());
    page = std::move(*next);
    std::vector<FileId> files;
    for (const wire::MovedPiece& each : page.pieces) files.push_back(each.file);
    auto known = co_await service::handles_of(context_, std::move(files));
    if (!known) co_return fail(std::move(known).error());
    for (std::size_t i = 0; i < page.pieces.size(); ++i) {
      if (stopping_) co_return fail(Errc::kUnavailable, "it stops");
      const wire::MapPiece& piece = page.pieces[i].piece;
      if (const auto& file = (*known)[i]) co_await visit(file->handle, piece, file->size);
    }
  }
  co_return Status{};
}

Task<Status> Pieces::by_hash(wire::ServerEntry node, Visit visit) {
  service::RemoteObjects objects(context_.channel, node, kListTimeout);
  wire::ObjectListResult listed{.end = false};
  wire::ObjectListArgs args{.limit = kFilePage};
  while (!listed.end) {
    auto next = co_await objects.list(args);
    if (!next) co_return fail(next.error(), node.name);
    listed = std::move(*next);
    if (listed.objects.empty()) break;
    args.after = listed.objects.back();
    std::vector<FileId> files;
    for (const wire::ObjectName& name : listed.objects) {
      const bool ours = name.volume == context_.config.volume.id && name.kind == wire::ObjectKind::kFile;
      if (ours && gate_.owns(name.fileid)) files.push_back(name.fileid);
    }
    auto known = co_await service::handles_of(context_, files);
    if (!known) co_return fail(std::move(known).error());
    for (std::size_t i = 0; i < files.size(); ++i) {
      const auto& file = (*known)[i];
      if (stopping_) co_return fail(Errc::kUnavailable, "it stops");
      if (!file || !routing::mirrored(file->handle) || routing::block_mapped(file->handle)) continue;
      auto stat = co_await objects.stat({context_.config.volume.id, files[i], wire::ObjectKind::kFile});
      if (!stat) co_return fail(stat.error(), node.name);
      const std::uint64_t stripes = stripes_of(stat->end, file->handle);
      for (std::uint64_t first = 0; first < stripes; first += wire::kStripesOfPiece) {
        auto piece = maps_.piece(files[i], wire::piece_of(first));
        if (!piece) co_return fail(std::move(piece).error());
        if (!piece->sites.empty()) continue;  // one of recorded()
        co_await visit(file->handle, std::move(*piece), stat->end);
      }
    }
  }
  co_return Status{};
}

}  // namespace slice::coordinator
