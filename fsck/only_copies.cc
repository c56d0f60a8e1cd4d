#include "fsck/only_copies.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "dirserver/cells/cells.h"
#include "dirserver/fsck/finding.h"
#include "dirserver/fsck/keys.h"
#include "routing/copies.h"

namespace slice::fsck {
namespace {

using dirserver::AttributeCell;
using dirserver::CellKind;

class OnlyCopiesPass {
 public:
  OnlyCopiesPass(const OnlyCopiesSeams& seams, std::uint32_t server) : seams_(seams), server_(server) {
    const wire::Tables& tables = seams.tables.wire();
    const auto& owners = tables.sites[static_cast<std::size_t>(wire::Role::kStorage)];
    has_.resize(owners.size());
    for (std::size_t site = 0; site < owners.size(); ++site) has_[site] = owners[site] == server;
    for (const wire::SiteMove& each : seams.moves) {
      if (each.site_class != wire::Role::kStorage || each.to != server) continue;
      for (std::uint32_t site : each.sites) has_.at(site) = true;
    }
  }

  Task<Result<bool>> has_bytes_of(const AttributeCell& cell) {
    const routing::FileHandle handle = dirserver::handle_of(cell.self);
    const std::uint64_t threshold = seams_.volume.threshold;  // what is below is at a small-file server
    if (!cell.regular() || routing::mirrored(handle) || cell.size <= threshold) co_return false;
    const std::uint64_t first = threshold >> handle.stripe_shift;
    const std::uint64_t last = (cell.size - 1) >> handle.stripe_shift;
    if (!routing::block_mapped(handle)) {
      for (std::uint64_t stripe = first; stripe <= last; ++stripe) {
        const SiteId site =
            seams_.tables.storage_site(handle.fileid, stripe << handle.stripe_shift, handle.stripe_shift);
        if (has_[site.value]) co_return true;
      }
      co_return false;
    }
    wire::MapPiece piece;
    for (std::uint64_t stripe = first; stripe <= last; ++stripe) {
      if (stripe == first || stripe % wire::kStripesOfPiece == 0) {
        auto got = co_await seams_.map_piece(handle, stripe);
        if (!got) co_return fail(std::move(got).error());
        piece = std::move(*got);
      }
      if (piece.sites.empty()) continue;
      const SiteId site{piece.sites[stripe % wire::kStripesOfPiece]};
      if (routing::has(seams_.tables.copies_of(site, 1), server_)) co_return true;
    }
    co_return false;
  }

 private:
  const OnlyCopiesSeams& seams_;
  const std::uint32_t server_;
  std::vector<bool> has_;  // by site
};

}  // namespace

Task<Result<OnlyCopies>> find_only_copies(OnlyCopiesSeams seams, std::uint32_t server, std::uint64_t limit) {
  OnlyCopies found;
  OnlyCopiesPass pass(seams, server);
  for (std::uint32_t number = 0; number < seams.cells.sites(); ++number) {
    const SiteId site{number};
    dirserver::fsck::Cursor cells(seams.cells, site, dirserver::range_of(site, CellKind::kAttributes));
    while (true) {
      auto there = co_await cells.fill();
      if (!there) co_return fail(std::move(there).error());
      if (!*there) break;
      const FileId file = dirserver::fsck::file_of(cells.cell().key);
      auto cell = dirserver::decode_attribute_cell(site, cells.cell().value);
      cells.next();
      if (!cell)
        co_return fail(Errc::kCorrupt, "the attribute cell of file {:#x} does not decode (slicectl fsck)",
                       file.value);
      auto has = co_await pass.has_bytes_of(*cell);
      if (!has) co_return fail(std::move(has).error());
      if (!*has) continue;
      if (found.found++ < limit) found.files.push_back({.file = file, .size = cell->size, .paths = {}});
    }
  }
  co_return found;
}

std::string render(const OnlyCopies& found, std::string_view server, bool json) {
  if (json) {
    nlohmann::ordered_json out{
        {"server", server}, {"found", found.found}, {"files", nlohmann::ordered_json::array()}};
    for (const auto& [file, size, paths] : found.files)
      out["files"].push_back({{"fileid", file.value}, {"size", size}, {"paths", paths}});
    return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  }
  if (found.found == 0) return fmt::format("no file has bytes on {} and nowhere else\n", server);
  std::string text = fmt::format("{} file{} bytes on {} and nowhere else:\n", found.found,
                                 found.found == 1 ? " has" : "s have", server);
  for (const auto& [file, size, paths] : found.files) {
    text += fmt::format("  {:#x} ({} bytes)", file.value, size);
    for (const std::string& path : paths) text += "  " + dirserver::fsck::in_quotes(path);
    text += "\n";
  }
  if (found.found > found.files.size())
    text += fmt::format("  and {} more\n", found.found - found.files.size());
  return text;
}

}  // namespace slice::fsck
