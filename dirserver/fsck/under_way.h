// UnderWay: the files that decided changes over several sites have still to change somewhere. What is wrong
// with them may be no more than that: it is an unfinished operation, not damage.
#ifndef SLICE_DIRSERVER_FSCK_UNDER_WAY_H
#define SLICE_DIRSERVER_FSCK_UNDER_WAY_H

#include <set>

#include "dirserver/fsck/finding.h"
#include "dirserver/fsck/source.h"

namespace slice::dirserver::fsck {

class UnderWay {
 public:
  // Reads all prepared changes, and whether they are decided.
  Task<Status> read(CellSource& source);
  bool explains(const Finding& finding) const {
    return files_.contains(finding.file) || files_.contains(finding.other);
  }

 private:
  Task<Status> take(CellSource& source, wire::ScanCell cell);
  std::set<FileId> files_;
};

}  // namespace slice::dirserver::fsck

#endif  // SLICE_DIRSERVER_FSCK_UNDER_WAY_H
