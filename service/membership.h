// What a process knows of the ensemble's members before it serves: which number it has among them, and where
// they are. The file that it is started with lists those of the volume's birth; others came since, and some
// have moved.
#ifndef SLICE_SERVICE_MEMBERSHIP_H
#define SLICE_SERVICE_MEMBERSHIP_H

#include <string>
#include <vector>

#include "common/config.h"
#include "common/result.h"
#include "wire/manager.h"

namespace slice::service {

// What a process calls itself to the ensemble that is no server of it, or does not know yet which.
inline constexpr std::uint32_t kNobody = 0xffffffff;

// For with_members(): entries of tables, removed ones too.
std::vector<Member> members_of(const std::vector<wire::ServerEntry>& entries);

// The configuration with the members (with_members()) that the newest kept tables of these servers name, else
// those that the manager names. Without both it is returned as it is, where the file has all of these
// servers; where it lacks one, the manager is waited for. Blocks; runs a loop of its own. Errors: those of
// TLS.
Result<EnsembleConfig> learn_members(EnsembleConfig config, const std::vector<std::string>& names);
// The same as the manager names them, which is waited for: for a server that its kept tables have as removed,
// since it may have been added again.
Result<EnsembleConfig> wait_for_members(EnsembleConfig config, const std::vector<std::string>& names);
// The same for a tool, which is none of them: as the manager names them, and where that does not answer
// within a second as it is.
Result<EnsembleConfig> learn_members(EnsembleConfig config, const TlsConfig& tls);

}  // namespace slice::service

#endif  // SLICE_SERVICE_MEMBERSHIP_H
