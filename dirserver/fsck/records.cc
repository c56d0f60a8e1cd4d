// Everything that is neither attribute cell nor name cell.
#include "dirserver/fsck/keys.h"
#include "dirserver/fsck/pass.h"

namespace slice::dirserver::fsck {
namespace {

// What of a site's range lies around attribute cells and name cells; other kinds, known or not, are in it.
std::vector<KeyRange> other_ranges(SiteId site) {
  KeyRange attributes = range_of(site, CellKind::kAttributes);
  KeyRange names = range_of(site, CellKind::kName);
  std::string begin = attributes.begin.substr(0, 4);
  std::string end = attribute_key(SiteId{site.value + 1}, {}).substr(0, 4);
  return {{begin, attributes.begin}, {attributes.end, names.begin}, {names.end, end}};
}

void add_to(Totals& totals, const wire::ScanCell& cell) {
  std::uint64_t bytes = cell.key.size() + cell.value.size();
  switch (cell.key.size() > 4 ? kind_of(cell.key) : CellKind::kFormat) {
    case CellKind::kDuplicate:
      ++totals.records;
      totals.duplicate_bytes += bytes;
      break;
    case CellKind::kPart:
      ++totals.parts;
      totals.part_bytes += bytes;
      break;
    case CellKind::kKnownPart:
      totals.part_bytes += bytes;
      break;
    default:
      ++totals.records;
      totals.record_bytes += bytes;
  }
}

// Few, and each is looked at: those that are there only as long as an operation is under way, and locks.
bool looked_at(std::string_view key) {
  CellKind kind = kind_of(key);
  return kind == CellKind::kOwedTouch || kind == CellKind::kIntention || kind == CellKind::kPrepared ||
         kind == CellKind::kClientLocks;
}

void take(const wire::ScanCell& cell, Suspects& suspects, Report& report) {
  add_to(report.totals, cell);
  if (!good_key(cell.key) || looked_at(cell.key) || !check_value(cell.key, cell.value)) {
    suspects.add(Aspect::kRecord, cell.key);
  }
}

}  // namespace

Task<Status> read_records(CellSource& source, Suspects& suspects, Report& report) {
  for (std::uint32_t site = 0; site < source.sites(); ++site) {
    for (const KeyRange& range : other_ranges(SiteId{site})) {
      Cursor cells(source, SiteId{site}, range);
      for (;; cells.next()) {
        if (!cells.ready()) {
          auto more = co_await cells.fill();
          if (!more) co_return fail(std::move(more).error());
          report_gaps(SiteId{site}, cells.take_gaps(), report);
          if (!*more) break;
        }
        take(cells.cell(), suspects, report);
      }
    }
  }
  co_return Status{};
}

}  // namespace slice::dirserver::fsck
