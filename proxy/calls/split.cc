#include "proxy/calls/split.h"

#include "routing/place.h"

namespace slice::proxy {

std::vector<std::unique_ptr<Piece>> split_into_pieces(Services& services, const CallFacts& facts,
                                                      LegOwner& owner) {
  std::vector<std::unique_ptr<Piece>> pieces;
  slice_request request{};
  request.procedure = facts.procedure;
  request.fileid = facts.fileid.value;
  request.directory_site = facts.directory_site;
  request.handle_flags = facts.handle_flags;
  request.stripe_shift = facts.stripe_shift;
  request.offset = facts.offset;
  request.count = facts.count;
  if (services.passes_on(request)) {
    pieces.push_back(std::make_unique<Piece>(owner));  // whoever gets it splits it
    pieces.back()->route.site_class = kByVirtualAddress;
    pieces.back()->offset = facts.offset;
    pieces.back()->count = facts.count;
    return pieces;
  }
  do {
    auto piece = std::make_unique<Piece>(owner);
    piece->route = routing::place_of(*services.tables.config, request, nullptr);
    std::uint64_t stripe = request.offset >> (request.stripe_shift & 63);
    piece->leg.copies = slice_handle_copies(facts.handle_flags);
    const bool placed_anew =
        piece->leg.copies > 1 && (services.tables.config->flags & SLICE_CONFIG_MAPS) != 0;
    if (placed_anew || piece->route.outcome == SLICE_OUTCOME_BLOCK_MAPPED) {
      MonoTime now = services.plumbing.loop.now();
      auto site = services.maps.site(facts.handle, facts.fileid, stripe, now);
      piece->leg.site_by_hash = piece->route.site;
      piece->route.site = site.value_or(piece->route.site);
    }
    // Reads are spread over the copies, stripe by stripe; writes are for the first.
    if (facts.procedure == SLICE_NFS_READ) {
      piece->leg.first_copy = static_cast<std::uint32_t>(stripe) % piece->leg.copies;
    }
    piece->offset = request.offset;
    piece->count = piece->route.count;
    request.offset += piece->count;
    request.count -= piece->count;
    pieces.push_back(std::move(piece));
  } while (request.count > 0);
  return pieces;
}

std::string unfinished(const std::vector<std::unique_ptr<Piece>>& pieces) {
  constexpr std::size_t kMostTold = 3;
  std::string out;
  std::size_t left = 0;
  for (const auto& piece : pieces) {
    if (piece->done || ++left > kMostTold) continue;
    out += (out.empty() ? "" : "; ") + piece->leg.about();
  }
  return left > kMostTold ? fmt::format("{}; and {} more", out, left - kMostTold) : out;
}

}  // namespace slice::proxy
