// Copies: which servers have a stripe of a file that has a layout, and which of them may be used, by the
// tables and the layout (docs/mirrors.md, docs/block-maps.md). Pure functions: any thread.
#ifndef SLICE_ROUTING_COPIES_H
#define SLICE_ROUTING_COPIES_H

#include <algorithm>
#include <optional>
#include <vector>

#include "bpf/shared/file_handle.h"
#include "routing/file_handle.h"
#include "routing/tables.h"
#include "wire/layout.h"

namespace slice::routing {

// 1: not mirrored.
std::uint32_t copies_of(const FileHandle& handle);
inline bool mirrored(const FileHandle& handle) {
  return copies_of(handle) > 1;
}

inline bool block_mapped(const FileHandle& handle) {
  return (handle.flags & SLICE_HANDLE_BLOCK_MAPPED) != 0;
}
inline bool has_layout(const FileHandle& handle) {
  return slice_handle_has_layout(handle.flags) != 0;
}

// By the file's block map, or by the hash where that says nothing: of a file that is not block-mapped it says
// something where stripes were moved. `layout` has the stripe's piece.
SiteId site_of_stripe(const RoutingTables& tables, const wire::FileLayout& layout, const FileHandle& handle,
                      std::uint64_t stripe);

// Whether the server is one that the file's calls for this place may go to.
bool may_serve(const RoutingTables& tables, std::uint32_t server, const Route& place,
               const FileHandle& handle);

// Which server the file's calls for this place are for, by the tables: of a file with a layout the first that
// has copies there.
std::uint32_t server_for(const RoutingTables& tables, const Route& place, const FileHandle& handle);

// The storage servers that may have bytes of the file, as far as the tables know: of one with a layout those
// that have sites for such, and those that came later; else those that have sites.
std::vector<std::uint32_t> storage_servers(const RoutingTables& tables, const FileHandle& handle);

inline bool has(const std::vector<std::uint32_t>& servers, std::uint32_t server) {
  return std::find(servers.begin(), servers.end(), server) != servers.end();
}

struct StripeCopies {
  std::vector<std::uint32_t> all;      // in the order of the tables
  std::vector<std::uint32_t> whole;    // those that miss nothing of it; the first one orders its writes
  std::vector<std::uint32_t> written;  // those that get its writes: the whole ones, those that join again,
                                       // and those of the other site while it is moved
};
// Of a file without a layout: the server that has its site. `layout` counts for the others alone.
StripeCopies copies_of_stripe(const RoutingTables& tables, const wire::FileLayout& layout,
                              const FileHandle& handle, std::uint64_t stripe);

// The piece for those who have other tables, or none: with a listed site (wire/listed_site.h) for each
// stripe, also where there is no record and the hash says it. A piece of a block-mapped file that has no
// places gets none.
wire::MapPiece spelled_out(const RoutingTables& tables, const FileHandle& handle, wire::MapPiece piece);

// ---- sets of stripes: in order, apart ----
bool contains(const std::vector<wire::StripeRange>& set, std::uint64_t stripe);
// At most wire::kMaxStripeRanges remain: beyond, what is between the two nearest is taken in, too.
void add(std::vector<wire::StripeRange>& set, wire::StripeRange range);
// Those of `set` that are not in `others`.
std::vector<wire::StripeRange> without(const std::vector<wire::StripeRange>& set,
                                       const std::vector<wire::StripeRange>& others);

// Notes since when a server has missed these stripes. At most wire::kMaxMissedSince notes remain: beyond, the
// two oldest become one, of the later version and what is between them, too.
void note_missed_since(wire::Missing& missing, wire::StripeRange stripes, std::uint64_t version);

// The layout's version since which the first whole one of these copies of a stripe has ordered its writes, at
// the latest: as wire::OrdersSince. kNotYet also while not everybody knows which others miss it. There is
// one.
std::uint64_t ordered_since(const wire::FileLayout& layout, const StripeCopies& copies, std::uint64_t stripe);

const wire::Missing* find_missing(const std::vector<wire::Missing>& missing, std::uint32_t server);

}  // namespace slice::routing

#endif  // SLICE_ROUTING_COPIES_H
