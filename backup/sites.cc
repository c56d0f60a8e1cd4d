#include "backup/sites.h"

#include <algorithm>

#include "service/ownership.h"
#include "wire/moves.h"

namespace slice::backup {

Status check_files(const RestoreSeams& seams, const std::vector<std::uint32_t>& own) {
  for (const auto& file : seams.files) {
    const Header& header = file->header();
    const std::string expected = made_for(seams.config, header.role);
    if (header.volume != seams.config.volume.id || header.made_for != expected) {
      return fail(Errc::kInvalid, "{} is of volume {}, \"{}\"; this ensemble is volume {}, \"{}\"",
                  file->path(), header.volume.value, header.made_for, seams.config.volume.id.value, expected);
    }
  }
  for (std::uint32_t site : own) {
    const auto having = std::count_if(seams.files.begin(), seams.files.end(), [&](const auto& file) {
      return wire::has_site(file->header().sites, site);
    });
    if (having == 0)
      return fail(Errc::kNotFound, "site {}, which {} has, is in no file of the backup", site,
                  seams.self.name);
    if (having > 1) return fail(Errc::kCorrupt, "site {} is in {} files of the backup", site, having);
  }
  return {};
}

Task<Status> record_sites(const RestoreSeams& seams) {
  service::Ownership record(seams.loop, seams.disk, seams.self);
  co_return co_await record.grant_again(seams.tables->wire(), seams.loop.wall());
}

}  // namespace slice::backup
