// Pass: one reading of the volume, for one stretch of fileIDs: as many attribute cells as memory holds, and
// all names against them. What looks wrong becomes a suspect. Stretches follow one another in the order of
// fileIDs, which is the order of attribute cells in the stores; so each attribute cell is read once, and all
// names are read once a pass.
#ifndef SLICE_DIRSERVER_FSCK_PASS_H
#define SLICE_DIRSERVER_FSCK_PASS_H

#include <optional>

#include "dirserver/cells/placement.h"
#include "dirserver/fsck/finding.h"
#include "dirserver/fsck/source.h"
#include "dirserver/fsck/suspects.h"
#include "dirserver/fsck/table.h"
#include "dirserver/fsck/tree.h"

namespace slice::dirserver::fsck {

class Pass {
 public:
  struct Seams {
    CellSource& source;
    const Placement& placement;
    Suspects& suspects;
    Tree& tree;
    Report& report;
    std::uint64_t table_bytes = 0;
  };
  // For fileIDs from `first` on.
  Pass(const Seams& seams, FileId first) : seams_(seams), first_(first) {}

  Task<Status> run();
  // Where the next stretch begins; nothing where this was the last.
  std::optional<FileId> next() const { return next_; }

 private:
  // The names of one directory on one site, while they are read.
  struct Group {
    FileId directory;
    DirectoryEntry* entry = nullptr;  // null: it does not exist
    bool mine = false;                // of this stretch
    std::uint64_t entries = 0, subdirectories = 0;
  };

  Task<Status> load();
  Task<Status> load_site(SiteId site);
  Task<Status> check_sequence(SiteId site);
  void take_attributes(const wire::ScanCell& cell);
  Task<Status> read_truncations(SiteId site);
  Task<Status> read_reclaims(SiteId site);
  Task<Status> read_known_parts(SiteId site);
  Task<Status> read_names(SiteId site);
  void take_names(const wire::ScanCell& cell, Group& group);
  void check_name(const NameEntry& name, const wire::ScanCell& cell, Group& group);
  bool check_target(const NameEntry& name, FileId directory);
  Group open_group(FileId directory);
  Task<Status> close_group(SiteId site, const Group& group, Cursor& parts);
  Task<Status> read_parts(SiteId site, Cursor& parts, std::optional<FileId> up_to);
  void take_part(SiteId site, const wire::ScanCell& cell, const Group* group);
  void judge();

  bool mine(FileId file) const { return file >= first_ && (!next_ || file < *next_); }
  bool first_pass() const { return first_.value == 0; }
  // The part of a kind's range, whose keys begin with a fileID, that belongs to this stretch.
  KeyRange stretch(SiteId site, CellKind kind) const;
  void note_gaps(SiteId site, Cursor& cursor);
  void suspect(Aspect aspect, std::string key) { seams_.suspects.add(aspect, std::move(key)); }
  // By an attribute key.
  void suspect(Aspect aspect, FileId file);

  Seams seams_;
  FileId first_;
  std::optional<FileId> next_;
  Table table_;
};

// What of cells are neither attributes nor names, once: they must decode; unfinished operations and parts are
// looked at.
Task<Status> read_records(CellSource& source, Suspects& suspects, Report& report);

// Gaps are findings: what lies in them cannot be checked.
void report_gaps(SiteId site, const std::vector<wire::ScanGap>& gaps, Report& report);

}  // namespace slice::dirserver::fsck

#endif  // SLICE_DIRSERVER_FSCK_PASS_H
