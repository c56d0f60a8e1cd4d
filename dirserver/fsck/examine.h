// Examiner: looks at one suspect at a time, by reading all cells that it has to do with, and says exactly
// what is wrong with it. Every finding comes from here.
#ifndef SLICE_DIRSERVER_FSCK_EXAMINE_H
#define SLICE_DIRSERVER_FSCK_EXAMINE_H

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dirserver/cells/placement.h"
#include "dirserver/fsck/finding.h"
#include "dirserver/fsck/source.h"
#include "dirserver/fsck/suspects.h"

namespace slice::dirserver::fsck {

struct Verdict {
  bool settled = true;  // false: the cells changed while they were read, so nothing is known
  std::vector<Finding> findings;
};

class Examiner {
 public:
  // Both must outlive this.
  Examiner(CellSource& source, const Placement& placement) : source_(source), placement_(placement) {}

  // Any but kNames. An error: the source cannot be read.
  Task<Result<Verdict>> examine(Suspect suspect);
  // kNames, all at once, since that reads every name of the volume; by fileID.
  Task<Result<std::map<FileId, Verdict>>> examine_names(std::vector<FileId> files);

 private:
  Task<Result<Verdict>> root();
  Task<Result<Verdict>> cell(std::string key);
  Task<Result<Verdict>> name(std::string key);
  Task<Result<Verdict>> directory(std::string key);
  Task<Result<Verdict>> part(std::string key);
  Task<Result<Verdict>> cycle(std::string key);
  Task<Result<Verdict>> record(std::string key);
  Task<Status> client_locks(std::string_view key, Verdict& verdict);
  Task<Status> known_part(std::string_view key, Verdict& verdict);
  Task<Status> intention(std::string_view key, std::string_view value, Verdict& verdict);
  Task<Status> prepared(std::string_view key, std::string_view value, Verdict& verdict);

  Task<Result<wire::ScanValue>> get(SiteId site, std::string key);
  // The attribute cell; absent where `ref.site` is none of the volume.
  Task<Result<wire::ScanValue>> attributes(SiteId site, FileId file);
  bool has_site(SiteId site) const { return site.value < source_.sites(); }

  // What is wrong with one name, given what the source says of its directory's and its target's cell.
  void check_placement(const NameEntry& entry, std::string_view key, const CellRef& directory,
                       Verdict& verdict) const;
  static void check_target(const NameEntry& entry, std::string_view key, const wire::ScanValue& cell,
                           Verdict& verdict);
  Task<Status> check_fileid(const AttributeCell& cell, std::string_view key, const wire::ScanValue& sequence,
                            Verdict& verdict);

  // A count of the names of a directory on a site, with `keys` of the site as they were meanwhile.
  struct NamesOnSite {
    std::uint64_t entries = 0;
    std::uint64_t subdirectories = 0;
    std::vector<wire::ScanValue> values;
    bool settled = true;  // false: `values` changed meanwhile
  };
  Task<Result<NamesOnSite>> count_names(SiteId site, FileId directory, std::vector<std::string> keys);

  Task<Result<std::uint64_t>> known_subdirectories(std::string key, wire::ScanValue cell, Verdict& verdict);

  CellSource& source_;
  const Placement& placement_;
};

// The cell, where the value is one; else what is wrong goes into `verdict`, if anything.
std::optional<AttributeCell> decode_attributes(std::string_view key, const wire::ScanValue& value,
                                               Verdict& verdict);
// Says that a value is unreadable or does not decode. True where it is present and decodes.
bool check_stored(std::string_view key, const wire::ScanValue& value, Verdict& verdict);

std::string_view type_text(nfs3::FileType type);

}  // namespace slice::dirserver::fsck

#endif  // SLICE_DIRSERVER_FSCK_EXAMINE_H
