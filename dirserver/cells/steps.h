// Steps: what a change does to the cells of one site, as the server that decided it tells the server that has
// them. A step says what shall be, so that nothing is decided again when it is carried out; the counts of a
// directory's names follow from its name steps. Layout: docs/formats/cells.md.
#ifndef SLICE_DIRSERVER_CELLS_STEPS_H
#define SLICE_DIRSERVER_CELLS_STEPS_H

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dirserver/cells/cells.h"

namespace slice::dirserver {

// The attribute cell as it shall be, or that it goes (with the file's bytes, where it has some).
struct CellStep {
  enum class How : std::uint8_t { kChange = 10, kErase = 11, kCreate = 12 };
  How how = How::kChange;
  AttributeCell cell;
};

// One name of a directory; `target` is what it points to from now on, or pointed to.
struct NameStep {
  enum class How : std::uint8_t { kLink = 1, kUnlink = 2, kRetarget = 3 };
  How how = How::kLink;
  CellRef directory;
  Position position;
  std::string name;
  Target target;
};

using Step = std::variant<CellStep, NameStep>;

struct SiteSteps {
  SiteId site;
  std::vector<Step> steps;
};

// A participant's record of a change that was decided elsewhere, or will be.
struct PreparedRecord {
  TransactionId id;
  bool rename_lock = false;  // the volume's lock of directory renames is held meanwhile
  SiteSteps what;
};

std::string encode(const PreparedRecord& record);
// kCorrupt. `site`: that of the record.
Result<PreparedRecord> decode_prepared(SiteId site, std::string_view value);

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_CELLS_STEPS_H
