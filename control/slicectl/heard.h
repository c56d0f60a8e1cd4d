// What the ensemble says of itself when slicectl asks everybody at once: what health is judged by
// (control/slicectl/health.h). Also where the manager is silent.
#ifndef SLICE_CONTROL_SLICECTL_HEARD_H
#define SLICE_CONTROL_SLICECTL_HEARD_H

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/slicectl/queries.h"
#include "wire/about.h"
#include "wire/leader.h"

namespace slice::slicectl {

// Its own answers, to this host.
struct HeardServer {
  wire::ServerEntry entry;
  std::optional<Error> silence;            // why it did not answer; none: it did
  std::optional<wire::AboutResult> about;  // none: it did not answer, or is of a version that knows no ABOUT
  std::int64_t ahead_ns = 0;               // its clock, of this host's; with `about` only
  Duration inexact{0};                     // by so much at most `ahead_ns` may be wrong
  std::optional<Result<wire::SpreadingResult>> spread;  // of a coordinator that answered
  std::optional<wire::LeaderResult> leader;             // of one of several managers that answers
  std::string metrics;                                  // as it gave them
  std::map<std::string, double, std::less<>> figures;   // of these, those that have no labels

  // 0 where it has none of the name, which is without the prefix that all have.
  double figure(std::string_view name) const {
    const auto found = figures.find("slice_" + std::string(name));
    return found == figures.end() ? 0 : found->second;
  }
};

struct Heard {
  WallTime now;
  std::optional<Error> manager_silence;  // why; then there are none of the next four
  std::optional<wire::MembersResult> members;
  std::optional<wire::Tables> tables;  // none: the manager has none yet
  std::optional<wire::MovesListResult> moves;
  std::optional<wire::BackingSetsResult> backing;
  std::optional<wire::StandbysResult> standbys;
  std::vector<HeardServer> servers;  // members; without the manager the configuration's
};

// Asks the manager, and then all servers at once; takes no longer than `seams.timeout`.
Task<Heard> hear(const Seams& seams);

// What the managers that share their state say of who leads, and of where they share it: the leader where it
// answers, else one of the others; null: there are none, or none answers.
const wire::LeaderResult* leadership(const Heard& heard);

// Of those places the ones that are not well, each with its trouble.
std::vector<std::string> ill_places(const wire::LeaderResult& said);

// The members as the manager tells of them; without it as they have answered themselves, and `generation` and
// `settings` are the newest that anybody has.
wire::MembersResult members_of(const Heard& heard);

// How far coordinators are with evening out files.
std::vector<Spread> spreads_of(const Heard& heard);

// The value of each line of metrics without labels.
std::map<std::string, double, std::less<>> figures_of(std::string_view metrics);

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_HEARD_H
