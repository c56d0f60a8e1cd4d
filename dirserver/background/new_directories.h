// NewDirectories: where a new directory goes under mkdir switching when no probability is set. It stays with
// its parent's server as long as that has no more than its share of all objects; else it goes to one with
// fewer. So trees stay together where they fit, and a few large ones are spread over all servers all the
// same (docs/name-space.md; the paper leaves such tuning of p open). One loop.
#ifndef SLICE_DIRSERVER_BACKGROUND_NEW_DIRECTORIES_H
#define SLICE_DIRSERVER_BACKGROUND_NEW_DIRECTORIES_H

#include <memory>
#include <optional>
#include <vector>

#include "dirserver/background/members.h"
#include "dirserver/cells/placement.h"
#include "service/context.h"

namespace slice::dirserver {

class NewDirectories {
 public:
  // What a new directory counts for until servers tell anew what they have: itself, and what will soon be in
  // it.
  static constexpr double kObjectsOfOne = 8;
  // A server still has its share with that much more: of the share, and of objects.
  static constexpr double kTolerance = 1.0 / 16, kFew = kObjectsOfOne;

  // Both must outlive this.
  NewDirectories(service::ServiceContext& context, Members& members);

  // Else directories go by Placement alone, and nothing below may be asked.
  bool used() const { return used_; }

  // For a name of this server's: the site of another server that is to have the directory. Nothing: it is to
  // be here. What is answered counts as a directory that is there.
  std::optional<SiteId> elsewhere(const NamePlace& place);
  // And the site of this server, of all that it has.
  SiteId here(const NamePlace& place);

 private:
  struct Server {
    bool alive = true;
    double objects = 0;
    std::vector<SiteId> sites;
    double of_each_site() const { return objects / static_cast<double>(sites.size()); }
  };
  void follow();
  // It has one directory more.
  void count(Server& server);
  Server& server_of(SiteId site);

  service::ServiceContext& context_;
  Members& members_;
  const bool used_;
  std::uint64_t members_version_ = 0;
  std::shared_ptr<const routing::RoutingTables> tables_;
  std::vector<Server> servers_;  // by index; who has no sites is empty
  double objects_ = 0;           // of all
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_BACKGROUND_NEW_DIRECTORIES_H
