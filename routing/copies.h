// Copies: which servers have a stripe of a mirrored file, and which of them may be used, by the tables and
// the file's layout (docs/mirrors.md). Pure functions: any thread.
#ifndef SLICE_ROUTING_COPIES_H
#define SLICE_ROUTING_COPIES_H

#include <optional>
#include <vector>

#include "routing/file_handle.h"
#include "routing/tables.h"
#include "wire/layout.h"

namespace slice::routing {

// 1: not mirrored.
std::uint32_t copies_of(const FileHandle& handle);
inline bool mirrored(const FileHandle& handle) {
  return copies_of(handle) > 1;
}

struct StripeCopies {
  std::vector<std::uint32_t> all;      // in the order of the tables
  std::vector<std::uint32_t> whole;    // those that miss nothing of it; the first one orders its writes
  std::vector<std::uint32_t> written;  // those that get its writes: the whole ones and those that join again
};
StripeCopies copies_of_stripe(const RoutingTables& tables, const wire::FileLayout& layout,
                              const FileHandle& handle, std::uint64_t stripe);

// ---- sets of stripes: in order, apart ----
bool contains(const std::vector<wire::StripeRange>& set, std::uint64_t stripe);
// At most wire::kMaxStripeRanges remain: beyond, what is between the two nearest is taken in, too.
void add(std::vector<wire::StripeRange>& set, wire::StripeRange range);

const wire::Missing* find_missing(const wire::FileLayout& layout, std::uint32_t server);

}  // namespace slice::routing

#endif  // SLICE_ROUTING_COPIES_H
