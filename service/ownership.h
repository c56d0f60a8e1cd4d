// Ownership: which sites of its class a server has, as the server itself knows it, durably. Tables are hints:
// a server that has a record goes by no tables that say otherwise, so that a manager that lost its state, or
// got back an old one, can neither take sites from where their data is nor give them to where it is not.
// File `ownership` of the data directory (docs/formats/ownership.md). One loop.
#ifndef SLICE_SERVICE_OWNERSHIP_H
#define SLICE_SERVICE_OWNERSHIP_H

#include <optional>
#include <vector>

#include "common/config.h"
#include "storage/disk.h"
#include "wire/manager.h"

namespace slice::service {

class Ownership {
 public:
  // Both outlive it.
  Ownership(storage::Disk& disk, const ServerConfig& self) : disk_(disk), self_(self) {}

  // Servers whose class has no sites have no record.
  static bool applies_to(ServerRole role) { return static_cast<std::size_t>(role) < wire::kSiteClasses; }

  // Reads the record, where there is one. kCorrupt: it is damaged, and the server must not serve.
  Task<Status> load();
  bool known() const { return record_.has_value(); }
  // In order; known().
  const std::vector<wire::OwnedSite>& sites() const { return *record_; }
  // As in HEARTBEAT; 0: there is no record.
  std::uint64_t digest() const;

  // Records the sites that the server has by these tables; durable when it ends well. There was no record.
  Task<Status> grant(const wire::Tables& tables);
  // kInvalid: there is a record, and these tables say otherwise.
  Status check(const wire::Tables& tables) const;

 private:
  storage::Disk& disk_;
  const ServerConfig& self_;
  std::optional<std::vector<wire::OwnedSite>> record_;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_OWNERSHIP_H
