// Records: what servers have told of the sites that they have (CLAIM), and what follows for the tables: a
// site is at the server whose record says so, whatever tables say. Knows no network and no disk. One loop.
#ifndef SLICE_CONTROL_MANAGER_RECORDS_H
#define SLICE_CONTROL_MANAGER_RECORDS_H

#include <optional>
#include <string>
#include <vector>

#include "common/config.h"
#include "wire/manager.h"

namespace slice::manager {

class Records {
 public:
  // Both outlive it; `members` may grow.
  Records(const EnsembleConfig& config, const std::vector<wire::ServerEntry>& members)
      : config_(config), members_(members) {}

  // The digest of a heartbeat; `server` is a member.
  void heard(std::uint32_t server, std::uint64_t digest);
  // kInvalid: from nobody known, or of a site that there is not.
  Status claimed(const wire::ClaimArgs& args);
  // Some server has a record, whose sites need not be known.
  bool any() const;
  // Whether the server has a record that was not claimed yet.
  bool wants(std::uint32_t server) const;
  // Names of the servers that `wants` is true of.
  std::string wanted() const;

  // `tables`, which are of this configuration, with every site at the server that claims it; of one
  // generation more where that changes anything. kInvalid: two claim the same.
  Result<wire::Tables> applied_to(wire::Tables tables) const;
  // The newest generation that a claimed site is said to be there since.
  Generation newest() const { return newest_; }
  // Which sites nobody claims; empty where each of them is claimed.
  std::string unclaimed() const;
  // What these tables say of a server whose record has come, and the record does not; empty: nothing.
  std::string missing(const wire::Tables& tables) const;

 private:
  struct Said {
    std::uint64_t digest = 0;
    std::optional<std::vector<std::uint32_t>> sites;
  };
  // Calls `each(class, site, server)` for every claim.
  template <class Each>
  void for_each(const Each& each) const;

  Said& said(std::uint32_t server);

  const EnsembleConfig& config_;
  const std::vector<wire::ServerEntry>& members_;
  std::vector<Said> said_;  // by member; those behind have told nothing
  Generation newest_;
};

}  // namespace slice::manager

#endif  // SLICE_CONTROL_MANAGER_RECORDS_H
