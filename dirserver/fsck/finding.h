// Findings: what the checker of the name space has to say, and its report.
#ifndef SLICE_DIRSERVER_FSCK_FINDING_H
#define SLICE_DIRSERVER_FSCK_FINDING_H

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"

namespace slice::dirserver::fsck {

// docs/operations.md lists them with what they mean.
enum class Kind : std::uint8_t {
  kDangling,     // a name without attribute cell
  kWrongTarget,  // a name whose attribute cell is another generation, type, ...
  kNoDirectory,  // a name or part of a directory that does not exist
  kMisplaced,    // a name where the volume's policy does not put it
  kBadName,      // a name that no client can have given, or twice in one position
  kOrphan,       // an attribute cell without name
  kNames,        // a directory with more than one name; a root with any
  kLinkCount,    // nlink
  kParent,       // a directory whose ".." is not where its name is
  kTree,         // a name of another tree than its directory's, and no tree's own directory
  kEntries,      // a directory's number of names
  kPart,         // a part cell, or one that is missing
  kKnownPart,    // what the directory's own site knows of a part
  kCycle,        // directories that the root does not lead to
  kReclaim,      // a reclaim record of a file that exists
  kLocks,        // clients' locks of what is no file
  kTruncation,   // a truncation record without truncating file, or the reverse
  kSequence,     // a fileID that its site has not given out
  kDuplicate,    // a fileID that two sites have
  kRoot,         // no root directory
  kIntention,    // a record of an operation over several sites that nothing explains
  kSiteTwice,    // a site with cells on two servers
  kCorrupt,      // a key or value that does not decode
  kUnreadable,   // blocks that fail their checksum
  kLostBytes,    // bytes that a file has, and no data server (this and the next two: fsck/data_check.h)
  kNameless,     // bytes of a file that no directory server knows
  kStray,        // bytes at a server that does not have their site
  kUnfinished,   // no damage: an operation over several sites that its servers will finish or take back
};
inline constexpr std::size_t kKinds = static_cast<std::size_t>(Kind::kUnfinished) + 1;
std::string_view kind_name(Kind kind);  // "dangling", "wrong-target", ...

struct Finding {
  Kind kind = Kind::kCorrupt;
  SiteId site;
  FileId file;       // 0: none
  std::string name;  // empty: none
  std::string what;
  std::int64_t by = 0;  // a wrong count: how far it is off
  FileId other{};       // what a name points to
};

struct Totals {
  std::uint64_t sites = 0;
  std::uint64_t directories = 0;
  std::uint64_t files = 0;  // all else that has an attribute cell
  std::uint64_t names = 0;
  std::uint64_t parts = 0;    // part cells
  std::uint64_t records = 0;  // all other cells
  // Keys and values, by what they serve. Duplicate-request records are bounded and no part of a file.
  std::uint64_t attribute_bytes = 0, name_bytes = 0, part_bytes = 0, record_bytes = 0, duplicate_bytes = 0;
  std::uint64_t objects = 0, object_bytes = 0;  // of data servers, where bytes were checked
  std::uint64_t disk_bytes = 0;  // of the stores' files; 0 where the servers were asked instead
};

class Report {
 public:
  // At most `limit` findings are kept, and as many unfinished operations; all are counted.
  explicit Report(std::size_t limit) : limit_(limit) {}
  void add(Finding finding);

  std::uint64_t count(Kind kind) const { return counts_[static_cast<std::size_t>(kind)]; }
  std::uint64_t damage() const;  // all but kUnfinished
  // By kind, site, fileID and name.
  void sort();
  const std::vector<Finding>& findings() const { return findings_; }
  const std::vector<Finding>& unfinished() const { return unfinished_; }

  Totals totals;
  unsigned passes = 0;
  std::uint64_t suspects = 0;  // what was looked at by itself, since it looked odd in a pass
  std::uint64_t busy = 0;      // cells that changed each time they were looked at again
  std::uint64_t unmapped = 0;  // objects of files with a layout whose maps could not be had
  std::uint64_t skipped = 0;   // suspicions that there was no memory for
  bool cycles_checked = true;
  std::set<std::string> gaps;  // where they begin: the same one may be met twice

  bool clean() const { return damage() == 0; }
  // Nothing was left out, so that "clean" means clean.
  bool complete() const { return busy == 0 && skipped == 0 && cycles_checked; }

 private:
  std::size_t limit_;
  std::array<std::uint64_t, kKinds> counts_{};
  std::vector<Finding> findings_, unfinished_;
};

// One line a finding, then what was counted. `mode`: "offline" or "online".
std::string render_text(const Report& report, std::string_view mode);
std::string render_json(const Report& report, std::string_view mode);
// A name or path on one line, whatever bytes it has.
std::string in_quotes(std::string_view name);

}  // namespace slice::dirserver::fsck

#endif  // SLICE_DIRSERVER_FSCK_FINDING_H
