// CellSource: where the checker gets cells from: the stores of servers that are stopped (local_source.h), or
// the servers themselves (remote_source.h). Cursor: the cells of a range, one after the other.
#ifndef SLICE_DIRSERVER_FSCK_SOURCE_H
#define SLICE_DIRSERVER_FSCK_SOURCE_H

#include <string>
#include <vector>

#include "common/task.h"
#include "dirserver/cells/cells.h"
#include "wire/scan.h"

namespace slice::dirserver::fsck {

class CellSource {
 public:
  CellSource() = default;
  CellSource(const CellSource&) = delete;
  CellSource& operator=(const CellSource&) = delete;
  virtual ~CellSource() = default;

  // As SCAN (wire/scan.h), with status kOk. An error: the site cannot be read at all.
  virtual Task<Result<wire::ScanResult>> scan(wire::ScanArgs args) = 0;
  // Whether cells may change between two calls.
  virtual bool live() const = 0;
  virtual std::uint32_t sites() const = 0;

  // Values of keys of one site, of one moment.
  Task<Result<std::vector<wire::ScanValue>>> get(SiteId site, std::vector<std::string> keys);
};

class Cursor {
 public:
  // Cells of the site with keys in `range`. `source` must outlive this.
  Cursor(CellSource& source, SiteId site, KeyRange range);

  // Whether there is a cell, which cell() then is: ready() is the same without asking the source, and may be
  // false though there is one.
  Task<Result<bool>> fill();
  bool ready() const { return at_ < page_.cells.size(); }
  const wire::ScanCell& cell() const { return page_.cells[at_]; }
  void next() { ++at_; }

  // What could not be read since this was asked last.
  std::vector<wire::ScanGap> take_gaps() { return std::exchange(gaps_, {}); }

 private:
  CellSource& source_;
  SiteId site_;
  KeyRange left_;
  wire::ScanResult page_;
  std::size_t at_ = 0;
  std::vector<wire::ScanGap> gaps_;
};

}  // namespace slice::dirserver::fsck

#endif  // SLICE_DIRSERVER_FSCK_SOURCE_H
