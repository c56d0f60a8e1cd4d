// check: proves that a name space is whole, or says what is wrong with it. First passes over all cells
// (pass.h), which collect suspects; then each suspect by itself (examine.h). Where servers go on changing
// cells meanwhile, only what is found `stands` times in a row, with pauses, is a finding.
#ifndef SLICE_DIRSERVER_FSCK_CHECKER_H
#define SLICE_DIRSERVER_FSCK_CHECKER_H

#include <cstdint>

#include "common/loop.h"
#include "dirserver/cells/placement.h"
#include "dirserver/fsck/finding.h"
#include "dirserver/fsck/source.h"

namespace slice::dirserver::fsck {

struct Options {
  // Bytes of memory for the tables of attribute cells, the parents of directories, and suspects: more cells
  // take more passes; more directories than parents have room for leave cycles unchecked, and more suspects
  // leave some unexamined, which the report says.
  std::uint64_t table_bytes = 512 << 20;
  std::uint64_t tree_bytes = 256 << 20;
  std::uint64_t suspect_bytes = 256 << 20;
  std::size_t limit = 10'000;  // findings that are listed; all are counted

  unsigned stands = 3;
  Duration pause = std::chrono::seconds(1);  // between two looks at a suspect
  unsigned looks = 60;                       // then a cell that always changes is given up as busy
};
Options options_for(std::uint64_t memory_bytes);

// An error: cells could not be read. Everything must outlive the task.
Task<Result<Report>> check(CellSource& source, const Placement& placement, Loop& loop, Options options);

}  // namespace slice::dirserver::fsck

#endif  // SLICE_DIRSERVER_FSCK_CHECKER_H
