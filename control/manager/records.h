// Records: what servers have told of the sites that they have (CLAIM), and what follows for the tables: a
// site is at the server whose record says so, whatever tables say. Knows no network and no disk. One loop.
#ifndef SLICE_CONTROL_MANAGER_RECORDS_H
#define SLICE_CONTROL_MANAGER_RECORDS_H

#include <optional>
#include <string>
#include <vector>

#include "common/config.h"
#include "wire/manager.h"
#include "wire/moves.h"

namespace slice::manager {

class Records {
 public:
  // Both outlive it; `members` may grow.
  Records(const EnsembleConfig& config, const std::vector<wire::ServerEntry>& members)
      : config_(config), members_(members) {}

  // The digest of a heartbeat; `server` is a member.
  void heard(std::uint32_t server, std::uint64_t digest);
  // An older record than one that was claimed changes nothing. kInvalid: from nobody known, or of a site that
  // there is not.
  Status claimed(const wire::ClaimArgs& args);
  // It is no member any more: what it told counts for nothing.
  void forget(std::uint32_t server);
  // Some server has a record, whose sites need not be known.
  bool any() const;
  // Whether the server has a record that was not claimed yet.
  bool wants(std::uint32_t server) const;
  // Names of the servers that `wants` is true of.
  std::string wanted() const;

  // `tables`, which are of this configuration, with every site at the server that claims it; of one
  // generation more where that changes anything. Of two that claim the same, it is at the one who has it
  // since later: by a move of which the other's claim does not know. kInvalid: both since the same.
  Result<wire::Tables> applied_to(wire::Tables tables) const;
  // Notes in the tables which storage servers that came after the volume's birth have claimed, and so have
  // been there (wire::ServerEntry::started); one generation more, and true, where that changes anything.
  bool note_started(wire::Tables& tables) const;
  // A move has brought these sites to another server, which has them since this generation.
  void moved(const wire::SiteMove& move, Generation since);
  // The newest generation that a claimed site is said to be there since.
  Generation newest() const { return newest_; }
  // Which sites nobody claims; empty where each of them is claimed.
  std::string unclaimed() const;
  // What these tables say of a server whose record has come, and the record does not; empty: nothing.
  std::string missing(const wire::Tables& tables) const;

 private:
  struct Said {
    std::uint64_t digest = 0;
    std::optional<std::vector<wire::OwnedSite>> sites;
    std::vector<std::uint32_t> layout_sites = {};
    std::uint64_t version = 0;  // of the newest record that was claimed
  };
  // Calls `each(class, site, server)` for every claim, with site an OwnedSite.
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
