// SpaceMonitor: how much room there is: for this server's own cells (whether growing operations are refused),
// and for the volume's bytes (what FSSTAT answers). One loop.
#ifndef SLICE_DIRSERVER_BACKGROUND_SPACE_H
#define SLICE_DIRSERVER_BACKGROUND_SPACE_H

#include "dirserver/background/members.h"
#include "service/context.h"

namespace slice::dirserver {

class SpaceMonitor {
 public:
  static constexpr Duration kOwnMaxAge = std::chrono::seconds(1);
  // What one file costs here, about: its two cells and their share of the tables.
  static constexpr std::uint64_t kBytesPerFile = 1024;

  SpaceMonitor(service::ServiceContext& context, Members& members) : context_(context), members_(members) {}

  // Less than the configured reserve is free in this server's data directory: names and cells may only
  // shrink. Known to within kOwnMaxAge.
  bool low();

  // Bytes: the sum over the living storage nodes, each in proportion of what a new file of the volume's
  // policy may put there, by the sites that it holds, as they told the manager, at most Members::kMaxAge old
  // where the manager answers; before it ever did, this server's own. Files: those of the other directory
  // servers, dead ones' as they were last, and as many more as there is room for at living ones and this one.
  struct Figures {
    std::uint64_t total_bytes = 0, free_bytes = 0;
    std::uint64_t other_files = 0, free_files = 0;
  };
  Task<Figures> volume();

 private:
  storage::Space own();
  void add_up(const std::vector<wire::Member>& members);
  // How much of a node's disk counts: from 0, where no byte can be put, to 1.
  double part_of(const wire::Member& node, const std::vector<wire::Member>& all) const;

  service::ServiceContext& context_;
  Members& members_;
  storage::Space own_;
  bool own_known_ = false;
  MonoTime own_at_{};
  std::uint64_t added_up_ = 0;  // the version of the members
  std::uint64_t total_bytes_ = 0, free_bytes_ = 0;
  std::uint64_t other_files_ = 0, other_room_ = 0;  // other directory servers': objects, and bytes for more
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_BACKGROUND_SPACE_H
